"""Flame graphs: what stacks are weighted by, their tree, and sums by function."""
