"""Chaos: a real stack on three Apache Kafka nodes under faults, and whether it still says what it says undisturbed."""
