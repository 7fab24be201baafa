"""Collectives of several ranks: what they are, which belong together, who waited for whom."""
