"""What carries the bytes of a client: Kafka, or shards in the caller's process."""
