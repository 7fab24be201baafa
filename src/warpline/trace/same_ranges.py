"""Ranges that two recorders have of one piece of code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing


class NamedSpans(NamedTuple):
    """Named intervals on threads.

    Attributes:
        name: Shape (n,), int64, equal for equal names.
        thread: Shape (n,), int64.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
    """

    name: I64
    thread: I64
    start_ns: I64
    end_ns: I64

    def take(self, rows: I64 | BoolArray) -> NamedSpans:
        """Return some of them."""
        return NamedSpans(*(column[rows] for column in self))


def are_among(spans: NamedSpans, others: NamedSpans) -> BoolArray:
    """Return which spans others of the same name and thread are around in their middle.

    Recorders that mark the same code begin and end at slightly different times.
    """
    if not len(others.name):
        return np.zeros(len(spans.name), np.bool_)
    keys = np.concatenate((spans.thread << 32 | spans.name, others.thread << 32 | others.name))
    codes = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
    found = enclosing(
        spans.start_ns + (spans.end_ns - spans.start_ns) // 2,
        others.start_ns,
        np.maximum(others.start_ns, others.end_ns),
        point_group=codes[: len(spans.name)],
        group=codes[len(spans.name) :],
    )
    return found.found
