"""The worker: Faust, threads, transactions, takeover; it drives shards on Kafka."""
