"""Publishing: what becomes of a message that arrives, and of its id."""
