"""Kernels that compute rather than move data, so that their time follows the clock of the SMs."""

from __future__ import annotations

import re

import numpy as np

from warpline.derived.efficiency.product_shapes import products_bound_by_memory
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

_COMPUTING = (TimePart.GEMM, TimePart.CONVOLUTION, TimePart.ATTENTION)
_SHORTEST_NS = 10_000  # shorter kernels take their latency
# Products with one vector, attention for one new token, and sums of parts: they read all of their
# input for little arithmetic.
_READS_MOST = lazy_pattern(
    r"gemv|dot_kernel|split_?kv|decode|paged_?attention|_combine|split_?k\w*_?reduce|reduce_?split_?k",
    re.IGNORECASE,
)


def compute_bound(trace: Trace) -> BoolArray:
    """Return which operations are kernels bound by arithmetic, shape (operations,).

    They are GEMMs, convolutions and attention kernels of 10 us or more, except those whose names or
    recorded sizes show that memory bounds them.
    """
    work = operations(trace)
    chosen: BoolArray = np.isin(operation_categories(trace), _COMPUTING)
    chosen &= work.end_ns - work.start_ns >= _SHORTEST_NS
    if not chosen.any():
        return chosen
    chosen &= ~kernels_named(trace, _reads_most)
    chosen &= ~products_bound_by_memory(trace)
    return chosen


def _reads_most(name: str) -> bool:
    return _READS_MOST.search(name) is not None
