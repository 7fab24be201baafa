"""Device work: the operations of a trace, what launched them, and when devices were busy."""
