"""Readers: one file, or one package, per format. They do not import each other."""
