"""Findings and steps on their way to OpenTelemetry: ``paceline otlp``.

Rule of this folder: what is sent is chosen by a pure decision; records are made in one place, and one thread a signal
sends them. A receiver that is down costs memory up to a bound, and what was dropped is reported.
"""
