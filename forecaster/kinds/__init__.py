"""Kinds of job: training, inference, interactive, data preparation, batch inference, idle, or unknown."""
