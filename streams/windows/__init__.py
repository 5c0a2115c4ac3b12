"""Summaries over 1 s, 10 s and 1 min: pure decisions over batches of events. No I/O, no clock, no environment."""
