"""The live page: who is slow, since when and why, while the training runs.

The reader (one a process) fills the feed from Kafka; screens draw snapshots of it and never touch Kafka.
"""
