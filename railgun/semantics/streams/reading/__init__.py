"""Reading: one message, many at once, or a stream in order."""
