"""The memory transport: shards in the caller's process."""
