"""What was there before a history of events began, by the first event at each address."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import factorize_rows


class Ranges(NamedTuple):
    """Ranges of addresses.

    Attributes:
        address: Shape (n,), int64.
        bytes: Shape (n,), int64.
    """

    address: I64
    bytes: I64


class FirstEvents(NamedTuple):
    """The first event at each address that a block or an event has.

    Attributes:
        of_event: Shape (events,), whether it is the first at its address.
        of_block: Shape (blocks,), whether there is an event at its address.
    """

    of_event: BoolArray
    of_block: BoolArray


def first_events(events: tuple[I64, I64], blocks: tuple[I64, I64]) -> FirstEvents:
    """Return which events are the first at their address, and which blocks have events.

    Args:
        events: Device and address of each event, each of shape (events,), in order of time.
        blocks: Device and address of each block, each of shape (blocks,).
    """
    groups = factorize_rows(*(np.concatenate(pair) for pair in zip(events, blocks, strict=True)))
    count = len(events[0])
    first = _first_rows(groups.codes, groups.n_groups)
    of_event = np.zeros(count, np.bool_)
    of_event[first[first < count]] = True
    return FirstEvents(of_event, first[groups.codes[count:]] < count)


def ranges_before(events: Ranges, is_end: BoolArray, last: Ranges) -> tuple[Ranges, I64]:
    """Return the memory that was mapped before a history of events, which ends with `last`.

    An address was mapped before if the first event of its own ended that, or if it had none and is
    mapped in the end. Memory may be mapped in one piece and unmapped in others.

    Args:
        events: Shape (events,), the ranges that events mapped or unmapped, in order of time.
        is_end: Shape (events,), whether they were unmapped.
        last: The ranges that are mapped in the end; they do not overlap.

    Returns:
        Ranges, ascending, and the cause of each: the event, or the number of events and the place
        in `last`. Adjacent ones of one cause are one.
    """
    every = Ranges(*(np.concatenate(pair) for pair in zip(events, last, strict=True)))
    bounds = np.unique(np.concatenate([every.address, every.address + every.bytes]))
    cause = _first_covering(bounds, every)
    count = len(events.address)
    was_there = cause >= count
    is_event = (cause >= 0) & ~was_there
    was_there[is_event] = is_end[cause[is_event]]
    begins = np.flatnonzero(was_there & (np.diff(cause, prepend=-2) != 0))
    ends = np.flatnonzero(was_there & (np.diff(cause, append=-2) != 0))
    address = bounds[begins]
    return Ranges(address, bounds[ends + 1] - address), cause[begins]


def _first_covering(bounds: I64, ranges: Ranges) -> I64:
    """Return the first range that covers each piece between adjacent bounds; -1 without one.

    Each piece is visited once: `following` leads past those that are covered already.
    """
    pieces = max(len(bounds) - 1, 0)
    found = [-1] * pieces
    following = list(range(pieces + 1))
    firsts = np.searchsorted(bounds, ranges.address).tolist()
    ends = np.searchsorted(bounds, ranges.address + ranges.bytes).tolist()
    for number, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        piece = _next(following, first)
        while piece < end:
            found[piece] = number
            following[piece] = piece + 1
            piece = _next(following, piece)
    return np.array(found, np.int64)


def _next(following: list[int], piece: int) -> int:
    """Return the first piece from this one on that is not covered, and shorten the way there."""
    end = piece
    while following[end] != end:
        end = following[end]
    while following[piece] != end:
        following[piece], piece = end, following[piece]
    return end


def _first_rows(codes: I32, n_groups: int) -> I64:
    first = np.empty(n_groups, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last write, of the first row, wins
    return first
