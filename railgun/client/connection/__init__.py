"""One connection: where commands go, what was sent and is not answered yet, and how it ends."""
