"""Adopted topics: how far a stream is in Kafka topics that others write, and how it stores copies of their records (TOP)."""
