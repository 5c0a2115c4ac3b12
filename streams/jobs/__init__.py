"""The verdicts: pure decisions over one job's events. No I/O, no clock, no environment."""
