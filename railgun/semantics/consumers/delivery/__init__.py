"""Delivery: which messages come next, to which pull or listener, and how fast."""
