"""Memory blocks: lifetimes, allocating operators, and locations."""
