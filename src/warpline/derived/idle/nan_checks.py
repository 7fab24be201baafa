"""Reads by the CPU of whether a tensor has a NaN."""

from __future__ import annotations

import re

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.result_reads import result_reads
from warpline.derived.kernels.named import kernels_named
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Trace

_MOST_BETWEEN = 3  # operations from the comparison to the copy, such as a memset
# PyTorch's isnan() compares a tensor of floats with itself; any() follows.
_WITH_ITSELF = lazy_pattern(
    r"BinaryFunctor<(float|double|c10::Half|c10::BFloat16), ?\1, ?bool,"
    r" ?at::native::(?:<unnamed>::|\(anonymous namespace\)::)?CompareEqFunctor<"
)
_ANY = lazy_pattern(r"\bor_kernel_cuda\b")


@derived
def nan_checks(trace: Trace) -> I64:
    """Return the copies of results that say whether a tensor has a NaN, ascending.

    Each follows a comparison of a tensor of floats with another, or itself, and a reduction by
    `any` on its stream.

    Returns:
        Shape (n,), int64, indices into `operations`.
    """
    copies, work = distinct_values(result_reads(trace).copy), operations(trace)
    if not len(copies):
        return np.zeros(0, np.int64)
    is_compared, is_any = _named(trace, _WITH_ITSELF), _named(trace, _ANY)
    if not (is_compared.any() and is_any.any()):
        return np.zeros(0, np.int64)
    order = np.lexsort((work.start_ns, work.stream, work.device))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    # The latest place in order of a comparison, and of a reduction, up to each place.
    latest = [
        np.maximum.accumulate(np.where(chosen[order], np.arange(len(order)), -len(order)))
        for chosen in (is_compared, is_any)
    ]
    at = place[copies]
    compared, reduced = (found[at] for found in latest)
    near = (at - compared <= _MOST_BETWEEN) & (compared < reduced)
    first = order[np.maximum(compared, 0)]
    near &= (work.stream[first] == work.stream[copies]) & (
        work.device[first] == work.device[copies]
    )
    checks: I64 = copies[near]
    return checks


def _named(trace: Trace, pattern: re.Pattern[str]) -> BoolArray:
    """Return which operations are kernels whose names match."""
    return kernels_named(trace, lambda text: pattern.search(text) is not None)
