"""Where the time of devices and steps went, in parts that sum exactly."""
