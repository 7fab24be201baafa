"""Where the time of devices and of steps went, in parts that sum to the whole."""
