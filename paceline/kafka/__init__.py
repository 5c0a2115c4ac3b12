"""Kafka: how to reach the brokers, the clients and topics on them, and the embedded broker."""
