"""Streams that copy, add up and hand on under chaos: their cluster, its publishers and clients, and the audit of the logs."""
