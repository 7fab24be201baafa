"""Rounded shares that sum to exactly 100%."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.result import Breakdown, Part


def tenths_of_percent(values: Sequence[int]) -> list[int]:
    """Return each value's share of the sum in tenths of a percent; the shares sum to 1000.

    Each share is rounded down; the largest remainders are rounded up.
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
    """Return the parts for shares; without steps, those between the first and last operation."""
    if item.count:
        return item.parts
    parts = tuple(part for part in item.parts if part.category != "tail")
    return parts or item.parts
