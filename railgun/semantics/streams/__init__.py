"""The rules of streams: configuration, publishing, limits, reading, removal, expiry."""
