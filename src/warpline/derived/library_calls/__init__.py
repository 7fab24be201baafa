"""Calls of libraries: what they launched, and the arguments of GEMMs."""
