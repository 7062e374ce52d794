"""Configurations of streams: what they may be, and how they change."""
