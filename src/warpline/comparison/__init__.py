"""Comparison of two sides: pure functions over profiles of runs, and over tables by their keys."""
