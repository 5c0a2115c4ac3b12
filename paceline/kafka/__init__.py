"""Kafka: how to reach the brokers, the clients and topics on them, the one consumer loop, and the embedded broker."""
