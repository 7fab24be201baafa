"""Shares of time: parts in groups, and rounding that keeps sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpline.result import Breakdown, Part


class Group(NamedTuple):
    """Parts of time that share a sign in the bar."""

    name: str
    sign: str
    ascii_sign: str
    color: str


COMPUTE = Group("compute", "█", "#", "\x1b[32m")
COMMUNICATION = Group("communication", "▓", "=", "\x1b[35m")
COPIES = Group("copies", "▒", "-", "\x1b[36m")
IDLE = Group("idle", "░", ".", "\x1b[33m")
GROUPS = (COMPUTE, COMMUNICATION, COPIES, IDLE)


def tenths_of_percent(values: Sequence[int], total: int) -> list[int]:
    """Return shares in tenths of a per cent that sum to 1000 exactly, if the values do to `total`.

    Each is rounded down, and what is missing goes to those that lost most.
    """
    return apportion(values, total, 1000)


def part_shares(parts: Sequence[Part], total_ns: int) -> list[int]:
    """Return the share of each part in tenths of a per cent.

    Parts of a group in the bar sum to the group's own share there.
    """
    shares = [0] * len(parts)
    sums = group_sums(parts)
    for group, ns, share in zip(GROUPS, sums, tenths_of_percent(sums, total_ns), strict=True):
        rows = [row for row, part in enumerate(parts) if group_of(part) is group]
        inside = apportion([parts[row].ns for row in rows], ns, share)
        for row, part_share in zip(rows, inside, strict=True):
            shares[row] = part_share
    return shares


def apportion(values: Sequence[int], total: int, places: int) -> list[int]:
    """Return shares of `places` that sum to the values' part of the total exactly."""
    if total <= 0:
        return [0 for _ in values]
    shares = [value * places // total for value in values]
    missing = sum(values) * places // total - sum(shares)
    lost = [value * places % total for value in values]
    for place in sorted(range(len(values)), key=lambda row: -lost[row])[:missing]:
        shares[place] += 1
    return shares


def group_of(part: Part) -> Group:
    """Return the group that a part of time belongs to."""
    if part.kind == "idle":
        return IDLE
    if part.category == "collective":
        return COMMUNICATION
    is_copy = part.category.startswith("copy-") or part.category == "memset"
    return COPIES if is_copy else COMPUTE


def group_sums(parts: Sequence[Part]) -> list[int]:
    """Return the time of each of `GROUPS`."""
    return [sum(part.ns for part in parts if group_of(part) is group) for group in GROUPS]


def counted(item: Breakdown) -> tuple[Sequence[Part], int]:
    """Return the parts that shares are of, and the time that is left aside.

    Without steps that is the time before the first operation of a sample, or of a part that was
    chosen, and after the last.
    """
    if item.count:
        return item.parts, 0
    parts = [part for part in item.parts if part.category != "tail"]
    return (parts, item.total_ns - sum(part.ns for part in parts)) if parts else (item.parts, 0)


def tenths(share: int) -> str:
    """Return tenths of a per cent as a text."""
    return f"{share // 10}.{share % 10}%"


def percent(ns: int, total_ns: int) -> str:
    """Return a share as a text."""
    return tenths(round(1000 * ns / total_ns)) if total_ns else "-"
