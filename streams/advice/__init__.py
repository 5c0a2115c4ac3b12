"""Advice: what should be done about what was found, and what came of it."""
