"""Ranks of a distributed program: their names, their clocks, what they waited for."""
