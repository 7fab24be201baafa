"""Where the time went, and what limits performance: the tables and rules of `analyze`."""
