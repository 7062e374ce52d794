"""Chaos of key-value buckets: clients that write, read and watch, and what their histories must fulfil."""
