"""The streams of a shard: created, changed, published to, timed."""
