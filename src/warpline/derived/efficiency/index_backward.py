"""Backward passes of indexing that sort the indices before they add up gradients."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.named import kernels_named
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace

_ADD = lazy_pattern(r"\bindexing_backward_kernel")
_SORT = lazy_pattern(r"\bDeviceRadixSort\w*Kernel|\bradixSortKVInPlace")
# PyTorch's own preparation: linear indices, positions, and a contiguous copy of the gradients.
_PREPARE = lazy_pattern(
    r"\barange_cuda_out|\bdiv_trunc_kernel|\bremainder_kernel|\bdirect_copy_kernel|MulFunctor<long"
)


class IndexBackward(NamedTuple):
    """Kernels of such backward passes.

    Attributes:
        adding: Shape (n,), int64, indices into `operations`, ascending: kernels that add up.
        preparing: Shape (m,), int64, likewise: the sort before them, and what it needs.
    """

    adding: I64
    preparing: I64


@derived
def index_backward(trace: Trace) -> IndexBackward:
    """Return kernels that add up sorted gradients, with the sorts right before in their stream."""
    work, none = operations(trace), np.zeros(0, np.int64)

    def named(pattern: re.Pattern[str]) -> BoolArray:
        return kernels_named(trace, lambda text: pattern.search(text) is not None)

    adding = named(_ADD)
    if not adding.any():
        return IndexBackward(none, none)
    order = np.lexsort((work.start_ns, work.stream, work.device))
    adds, sorts = adding[order], named(_SORT)[order]
    fits = sorts | named(_PREPARE)[order]
    memsets = work.of_table("memset")
    is_memset = np.zeros(len(work), np.bool_)
    is_memset[memsets] = True
    fits |= is_memset[order]
    last = np.flatnonzero(adds)
    before = np.append(-1, np.flatnonzero(~fits))
    first = before[np.searchsorted(before, last) - 1] + 1
    total = np.append(0, np.cumsum(sorts))
    is_sorted = total[last] > total[first]
    last, first = last[is_sorted], first[is_sorted]
    depth = np.zeros(len(work) + 1, np.int64)
    np.add.at(depth, first, 1)
    np.add.at(depth, last, -1)
    preparing = np.flatnonzero(np.cumsum(depth[:-1]) > 0)
    return IndexBackward(np.sort(order[last]), np.sort(order[preparing]))
