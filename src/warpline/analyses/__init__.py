"""Analyses: pure functions of a trace, one per file. They never import each other."""
