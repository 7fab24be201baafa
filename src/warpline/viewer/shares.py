"""Rounded shares of a device's time; they sum to exactly 100% and equal those of `analyze`."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.result import Breakdown, Part


def part_shares(parts: Sequence[Part]) -> list[int]:
    """Return each part's share in tenths of a percent; the shares sum to 1000.

    The time is divided among compute, communication, copies, and idle time first, then among the
    parts of each, so that these sums do not depend on the rounding of their parts.
    """
    groups = [_group_of(part) for part in parts]
    sums = [
        sum(part.ns for part, own in zip(parts, groups, strict=True) if own == group)
        for group in range(_GROUPS)
    ]
    shares = [0] * len(parts)
    for group, share in enumerate(_apportioned(sums, 1000)):
        rows = [row for row, own in enumerate(groups) if own == group]
        inside = _apportioned([parts[row].ns for row in rows], share)
        for row, part_share in zip(rows, inside, strict=True):
            shares[row] = part_share
    return shares


_GROUPS = 4


def _group_of(part: Part) -> int:
    if part.kind == "idle":
        return 3
    if part.category == "collective":
        return 1
    return 2 if part.category.startswith("copy-") or part.category == "memset" else 0


def _apportioned(values: Sequence[int], places: int) -> list[int]:
    """Divide `places` in proportion to the values.

    Each result is rounded down; the largest remainders are rounded up.
    """
    total = sum(values)
    if total <= 0:
        return [0 for _ in values]
    shares = [value * places // total for value in values]
    rest = [value * places % total for value in values]
    for row in sorted(range(len(values)), key=lambda row: -rest[row])[: places - sum(shares)]:
        shares[row] += 1
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
