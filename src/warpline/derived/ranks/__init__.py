"""Ranks of a distributed program: their names, clocks, and waits."""
