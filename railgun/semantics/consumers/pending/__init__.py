"""What a consumer has still to do: pending and parked runs, position, messages given up."""
