"""Analyses: pure functions of a trace, one file each; they never import each other."""
