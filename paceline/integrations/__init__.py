"""Callbacks for frameworks: the same numbers as ``paceline run --track``, by the framework's own logger.

Rule of this folder: it runs in the user's process: the standard library, Paceline's training side, and of each
framework the module that it is for, which is imported there alone.
"""
