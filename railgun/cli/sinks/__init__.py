"""``railgun sink …``: sinks of Kafka Connect, applied, looked at and removed; their dead letters carried into streams."""
