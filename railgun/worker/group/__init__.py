"""The worker as a member of the consumer group: transport, records, membership."""
