"""Shares of a GPU's time: groups of parts, and rounding that preserves sums."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from warpline.result.diagnosis import TAIL, Breakdown, Overlap, Part


class Group(StrEnum):
    """Groups of the parts of a GPU's time; the values are their names on screens."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPIES = "copies"
    IDLE = "idle"


GROUPS = tuple(Group)


def own_ns(total_ns: int, place: int, overlaps: Sequence[Overlap]) -> int:
    """Return the time of a GPU without its waits for other ranks: a rank that waits is not slow.

    Args:
        total_ns: Its time.
        place: Its place in the breakdown.
        overlaps: In the same order; may be fewer.
    """
    if place >= len(overlaps):
        return total_ns
    item = overlaps[place]
    return total_ns - min(item.waiting_ns or 0, item.exposed_communication_ns, total_ns)


def tenths_of_percent(values: Sequence[int], total: int) -> list[int]:
    """Return shares in tenths of a percent, which sum to exactly 1000 if the values sum to `total`.

    Shares are rounded down. The remainder goes to the values with the largest rounding error.
    """
    return apportion(values, total, 1000)


def part_shares(parts: Sequence[Part], total_ns: int) -> list[int]:
    """Return the share of each part in tenths of a percent.

    The shares of a group's parts sum to the group's share in the bar.
    """
    shares = [0] * len(parts)
    sums = group_sums(parts)
    for group, ns, share in zip(GROUPS, sums, tenths_of_percent(sums, total_ns), strict=True):
        rows = [row for row, part in enumerate(parts) if group_of(part) == group]
        inside = apportion([parts[row].ns for row in rows], ns, share)
        for row, part_share in zip(rows, inside, strict=True):
            shares[row] = part_share
    return shares


def apportion(values: Sequence[int], total: int, places: int) -> list[int]:
    """Divide `places` in proportion to the values; the results sum exactly to the values' share."""
    if total <= 0:
        return [0 for _ in values]
    shares = [value * places // total for value in values]
    missing = sum(values) * places // total - sum(shares)
    lost = [value * places % total for value in values]
    for place in sorted(range(len(values)), key=lambda row: -lost[row])[:missing]:
        shares[place] += 1
    return shares


def group_of(part: Part) -> Group:
    """Return the one of `GROUPS` that a part of time belongs to."""
    if part.kind == "idle":
        return Group.IDLE
    if part.category == "collective":
        return Group.COMMUNICATION
    is_copy = part.category.startswith("copy-") or part.category == "memset"
    return Group.COPIES if is_copy else Group.COMPUTE


def group_sums(parts: Sequence[Part]) -> list[int]:
    """Return the time of each of `GROUPS`."""
    return [sum(part.ns for part in parts if group_of(part) == group) for group in GROUPS]


def counted(item: Breakdown) -> tuple[Sequence[Part], int]:
    """Return the parts that shares are based on, and the time that is excluded from them.

    Without steps, the time before the first and after the last operation (of each sample, or of
    the selected part) is excluded.
    """
    if item.count:
        return item.parts, 0
    parts = [part for part in item.parts if part.category != TAIL]
    return (parts, item.total_ns - sum(part.ns for part in parts)) if parts else (item.parts, 0)


def tenths(share: int) -> str:
    """Format tenths of a percent: ``12.3%``."""
    return f"{share // 10}.{share % 10}%"


def percent(ns: int, total_ns: int) -> str:
    """Format a share: ``12.3%``."""
    return tenths(round(1000 * ns / total_ns)) if total_ns else "-"
