"""The Kafka transport: a producer for commands, readers for the registry, answers and logs."""
