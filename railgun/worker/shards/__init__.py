"""Shards on Kafka: claimed, restored, driven, committed, handed over."""
