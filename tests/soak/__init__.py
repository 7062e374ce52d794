"""A long run with constant live data: what a cluster costs must not grow with what it ever did (``make soak``)."""
