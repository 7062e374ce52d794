"""The async classes of the facade, by hand. The sync ones are generated from them: `make twins`."""
