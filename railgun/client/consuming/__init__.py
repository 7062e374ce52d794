"""The consumers' side of a client: pulls, leases, messages leased ahead, acknowledgements."""
