"""A fuzz of the rules: random histories through a shard that has next to no room, beside one that lacks nothing."""
