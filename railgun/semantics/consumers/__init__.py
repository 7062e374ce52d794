"""Consumers: which messages each one gets, what it still owes an answer for, and what that means for the stream."""
