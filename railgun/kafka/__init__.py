"""Thin adapters to Kafka: settings, topics, records, and the embedded broker. Imports the model and errors only."""
