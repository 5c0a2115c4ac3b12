"""Decisions: from evidence to one verdict; pure."""
