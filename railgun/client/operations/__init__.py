"""The operations of the facade, without I/O: requests, how answers are read, and the steps between."""
