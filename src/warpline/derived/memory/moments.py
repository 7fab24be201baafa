"""Bytes in use by label, at some events of an allocator."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.blocks import Blocks
from warpline.ops.arrays import I64


def sums_at(
    blocks: Blocks, own: I64, codes: I64, n_codes: int, events: I64, *, values: I64 | None = None
) -> I64:
    """Return the bytes of blocks with each code that are in use after some events.

    Shape (n_codes, events), int64.

    Args:
        blocks: The blocks.
        own: Shape (n,), the blocks of one allocator that count.
        codes: Shape (n,), the code of each; negative ones do not count.
        n_codes: Number of codes.
        events: Shape (m,), places in the allocator's timeline, ascending.
        values: Shape (n,), what is summed, by default bytes.
    """
    summed = blocks.bytes[own] if values is None else values
    change = np.zeros((n_codes, len(events) + 1), np.int64)
    counted = codes >= 0
    rows, code, summed = own[counted], codes[counted], summed[counted]
    np.add.at(change, (code, np.searchsorted(events, blocks.first[rows])), summed)
    np.add.at(change, (code, np.searchsorted(events, blocks.last[rows])), -summed)
    return np.cumsum(change, axis=1)[:, :-1]


def most_bytes(blocks: Blocks, own: I64) -> int:
    """Return the most bytes of some blocks of one allocator that were in use at once."""
    if not len(own):
        return 0
    at = np.concatenate((blocks.first[own], blocks.last[own]))
    change = np.concatenate((blocks.bytes[own], -blocks.bytes[own]))
    order = np.argsort(at, kind="stable")
    return int(np.cumsum(change[order]).max())
