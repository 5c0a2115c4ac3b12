"""Other stream processors on one-row messages."""
