"""Why devices were idle: what held the threads that launch work."""
