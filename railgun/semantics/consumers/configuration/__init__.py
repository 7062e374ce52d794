"""Configurations of consumers: what they may be, how they change, where a consumer starts."""
