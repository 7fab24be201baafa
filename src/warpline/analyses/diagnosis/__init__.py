"""Where the time went, and what stands in the way: the tables and rules behind `analyze`."""
