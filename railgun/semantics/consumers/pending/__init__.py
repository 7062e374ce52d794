"""What a consumer has been given and still owes: pending and parked runs, position, messages given up."""
