"""Reads on their way: gets that travel together, pages that are asked for ahead, and the messages of their answers."""
