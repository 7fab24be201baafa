"""Collectives of several ranks: kinds, matches across ranks, and waits."""
