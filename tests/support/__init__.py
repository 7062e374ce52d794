"""Helpers that several tests share: brokers, waiting, processes."""
