"""Hostile bytes for everything that reads what others wrote, led by coverage (atheris, schemathesis)."""
