"""Readers of adopted topics: Kafka topics that others write, and that streams of this worker's shards copy."""
