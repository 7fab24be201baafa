"""Tables of our own that `summary` puts on one screen."""
