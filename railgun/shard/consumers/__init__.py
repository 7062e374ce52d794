"""The consumers of a shard: their commands, calls, deliveries and timers."""
