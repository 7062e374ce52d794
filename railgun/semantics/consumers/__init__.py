"""Consumers: which messages each one gets, what waits for its answer, and what that means for the stream."""
