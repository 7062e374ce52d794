"""The rules, pure: (state, command, now) -> what follows. No Kafka, no clock, no files; refusals are values."""
