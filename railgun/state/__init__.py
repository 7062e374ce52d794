"""Tables: ordered key-value stores, in memory or in RocksDB under one contract, and the overlay of a drain."""
