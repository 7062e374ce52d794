"""Chaos: parts are killed, stopped and lost under load; then the logs are read as any Kafka reader would, and counted."""
