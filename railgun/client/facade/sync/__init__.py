"""The sync classes of the facade, generated from their async twins: change those, then run `make twins`."""
