"""Summaries of many recordings joined, as a tree.

A reduced part is pieces of bytes and a list of what was left out, so that it may be sent between
processes. Parts are joined in any order. The pieces of a large job are never copied to one block,
and each is freed once it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from warpline.fleet.flight_calls import FlightDump
from warpline.result.fleet import LeftOut

FAN_IN = 16  # parts that are joined at once
FIRST = 16  # recordings after which there is a first answer


class Reduced(NamedTuple):
    """The summaries of some recordings.

    Attributes:
        content: Pieces, each of `fleet.summary.packed`. `fleet.summary.drained` reads them.
        left_out: The recordings without a summary.
        dumps: Dumps of flight recorders.
    """

    content: list[bytes]
    left_out: tuple[LeftOut, ...]
    dumps: tuple[FlightDump, ...] = ()


Leaf = Callable[[str], Reduced]  # reduces one recording; raises nothing about the file


def joined(parts: Sequence[Reduced]) -> Reduced:
    """Return the summaries of all parts."""
    return Reduced(
        [piece for part in parts for piece in part.content],
        tuple(item for part in parts for item in part.left_out),
        tuple(item for part in parts for item in part.dumps),
    )


def in_turn(paths: Sequence[str], leaf: Leaf) -> Iterator[Reduced]:
    """Yield the summaries of each recording, one after another in this process."""
    return (leaf(path) for path in paths)
