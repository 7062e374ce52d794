"""What both sides of Kafka agree on, as bytes and names: records, topics, routing."""
