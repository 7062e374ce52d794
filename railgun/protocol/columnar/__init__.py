"""Records of many publishes, gets or hand-overs as columns: a field of all of them lies together, and is read at once."""
