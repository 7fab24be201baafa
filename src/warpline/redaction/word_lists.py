"""The format of the lists: words separated by white space."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Split a text into words."""
    return frozenset(text.split())
