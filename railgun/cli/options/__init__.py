"""Options and arguments of the commands, and what they say."""
