"""Values that every room speaks of: subjects, headers, configurations, wire records, topic names.

Nothing here touches Kafka, a clock or a file (but for the Avro schemas), and nothing here imports another room.
"""
