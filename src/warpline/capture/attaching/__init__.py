"""Calls of functions in processes that run already, and what stands in the way of them."""
