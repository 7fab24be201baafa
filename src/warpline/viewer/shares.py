"""Shares that are shown sum to 100% exactly."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.result import Breakdown, Part


def tenths_of_percent(values: Sequence[int]) -> list[int]:
    """Return each value's share of their sum in tenths of a per cent; they sum to 1000.

    Each is rounded down, and what is missing goes to those that lost most.
    """
    total = sum(values)
    if total <= 0:
        return [0 for _ in values]
    shares = [value * 1000 // total for value in values]
    lost = [value * 1000 % total for value in values]
    for place in sorted(range(len(values)), key=lambda row: -lost[row])[: 1000 - sum(shares)]:
        shares[place] += 1
    return shares


def shown(tenths: int) -> str:
    """Return a share as text: ``12.3%``."""
    return f"{tenths // 10}.{tenths % 10}%"


def counted_parts(item: Breakdown) -> tuple[Part, ...]:
    """Return the parts that shares are of: without steps, not the time around all work."""
    if item.count:
        return item.parts
    parts = tuple(part for part in item.parts if part.category != "tail")
    return parts or item.parts
