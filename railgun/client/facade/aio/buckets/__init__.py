"""The async classes of key-value buckets, by hand. The sync ones are generated from them: `make twins`."""
