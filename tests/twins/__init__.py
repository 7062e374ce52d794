"""The sync classes of the facade, generated from the async ones: `make twins`, or `python -m tests.twins`."""
