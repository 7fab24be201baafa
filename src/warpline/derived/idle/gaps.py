"""Gaps of devices, the parts into which they are divided, and the causes of those."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I8, I64, BoolArray


class Gaps(NamedTuple):
    """Times during which nothing ran on a device, by device and start.

    Attributes:
        device: Shape (n,), int64, rows of the device table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
        before: Shape (n,), int64, the operation that ended last, -1 for none; indices into
            `operations`.
        after: Shape (n,), int64, an operation that ended the gap, -1 for none.
    """

    device: I64
    start_ns: I64
    end_ns: I64
    before: I64
    after: I64


class Pieces(NamedTuple):
    """Parts of gaps with their causes; they tile the gaps, and neighbors differ in cause.

    Attributes:
        gap: Shape (k,), int64, indices of gaps.
        start_ns: Shape (k,), int64.
        end_ns: Shape (k,), int64, after the start.
        cause: Shape (k,), int8, idle members of `TimePart`.
    """

    gap: I64
    start_ns: I64
    end_ns: I64
    cause: I8


class Spans(NamedTuple):
    """Parts of gaps without a known cause yet; some may be empty."""

    gap: I64
    start_ns: I64
    end_ns: I64

    def taken(self, rows: I64 | BoolArray) -> Spans:
        """Return the selected spans."""
        return Spans(*(column[rows] for column in self))

    def because(self, cause: TimePart | I8) -> Pieces:
        """Return the spans with one cause, or one cause each."""
        codes = np.full(len(self.gap), cause, np.int8) if isinstance(cause, TimePart) else cause
        kept = self.end_ns > self.start_ns
        return Pieces(self.gap[kept], self.start_ns[kept], self.end_ns[kept], codes[kept])
