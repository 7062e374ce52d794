"""The sync classes of key-value buckets, generated from the async ones: `make twins`."""
