"""The agreement between the two sides of Kafka, as bytes and names: records, topics, routing."""
