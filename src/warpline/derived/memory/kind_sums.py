"""Bytes of each kind of GPU memory, with what the allocator holds beside blocks in use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.blocks import Blocks, replayed
from warpline.derived.memory.kinds import MemoryKind, kinds_of_blocks
from warpline.derived.memory.moments import most_bytes, sums_at
from warpline.ops.arrays import I64
from warpline.trace import Trace

# What is reserved beside blocks in use.
AWAITING, FRAGMENTED, CACHED = "Awaiting free", "Fragmented", "Cached"
LABELS = (*MemoryKind.labels(), AWAITING, FRAGMENTED, CACHED)

_N_KINDS = len(MemoryKind)


class KindSums(NamedTuple):
    """Bytes by kind after some events of an allocator.

    Attributes:
        bytes: Shape (`LABELS`, events), int64. The kinds of blocks sum to the allocated bytes, all
            rows to the reserved bytes. Without a memory history, the last three are 0, except that
            all reserved memory beside blocks is cached.
        most: Shape (`LABELS`,), int64, the most bytes of each at any time.
        blocks: Shape (`LABELS`,), int64, number of blocks after the first of the events.
    """

    bytes: I64
    most: I64
    blocks: I64


@derived
def kind_sums(trace: Trace, number: int, events: tuple[int, ...]) -> KindSums:
    """Return the bytes by kind.

    Args:
        trace: The trace.
        number: Place in `Replayed.timelines`.
        events: Places in the timeline, ascending.
    """
    timeline, blocks = replayed(trace).timelines[number], replayed(trace).blocks
    own, at = blocks.of(number), np.array(events, np.int64)
    kinds = kinds_of_blocks(trace)[own].astype(np.int64)
    sums = np.zeros((len(LABELS), len(at)), np.int64)
    sums[:_N_KINDS] = sums_at(blocks, own, kinds, _N_KINDS, at)
    # What was allocated before recording began, where only its sum is known.
    earlier = timeline.allocated_bytes[at] - sums[:_N_KINDS].sum(axis=0)
    sums[int(MemoryKind.UNKNOWN)] += np.maximum(earlier, 0)
    of_kinds = [most_bytes(blocks, own[kinds == kind]) for kind in range(_N_KINDS)]
    most = np.array([*of_kinds, 0, 0, 0], np.int64)
    is_known = kinds != int(MemoryKind.UNKNOWN)
    most[int(MemoryKind.UNKNOWN)] = _most_rest(timeline.allocated_bytes, blocks, own[is_known])
    if timeline.reserved_bytes is not None:
        rest = _beside(trace, number)
        sums[_N_KINDS:] = rest[:, at]
        # A free is completed by the next event, unless a stream still uses the block.
        is_free = np.diff(timeline.allocated_bytes, prepend=0) < 0
        most[_N_KINDS:] = rest[:, ~is_free].max(axis=1, initial=0)
    alive = blocks.alive(number, events[0]) if events else own[:0]
    count = np.bincount(kinds_of_blocks(trace)[alive], minlength=len(LABELS))
    return KindSums(sums, most, count.astype(np.int64))


def _most_rest(allocated: I64, blocks: Blocks, own: I64) -> int:
    """Return the most allocated bytes at any event that are not in some blocks."""
    change = np.zeros(len(allocated) + 1, np.int64)
    np.add.at(change, blocks.first[own], blocks.bytes[own])
    np.add.at(change, blocks.last[own], -blocks.bytes[own])
    return max(int((allocated - np.cumsum(change)[:-1]).max()), 0)


def _beside(trace: Trace, number: int) -> I64:
    """Return awaiting, fragmented and cached bytes after each event, shape (3, events)."""
    timeline = replayed(trace).timelines[number]
    reserved, allocated = timeline.reserved_bytes, timeline.allocated_bytes
    none = np.zeros(len(allocated), np.int64)
    if reserved is None:
        return np.stack((none, none, none))
    active = allocated if timeline.active_bytes is None else timeline.active_bytes
    split = none if timeline.inactive_split_bytes is None else timeline.inactive_split_bytes
    rest = np.stack((active - allocated, split, reserved - active - split))
    return np.maximum(rest, 0)
