"""What several tests share: brokers, waiting, processes."""
