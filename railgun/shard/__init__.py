"""A shard, pure: records in, a drain out. No Kafka, no threads; the worker and the memory transport drive it."""
