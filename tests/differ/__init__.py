"""The differential test: the same random operations on nats-server and on railgun, compared answer by answer."""
