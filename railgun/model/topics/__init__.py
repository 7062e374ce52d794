"""Kafka topics that streams adopt, as callers see them: templates of subjects, and how far a stream has come."""
