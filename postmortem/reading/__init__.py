"""Readers: one file format each, from text or bytes to evidence."""
