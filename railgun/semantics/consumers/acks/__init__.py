"""Acknowledgement and redelivery: what an answer does, and when a message comes again."""
