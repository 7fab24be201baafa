"""Values of metrics as a trace stores them."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import F64, BoolArray
from warpline.trace import Trace

_LARGEST = 2.0**62


def stored_numbers(trace: Trace, name: str) -> tuple[F64, BoolArray]:
    """Return the stored value of a metric of each profiled launch, and which launches have one.

    Both have shape (launches,). Values that are not finite, or too large for 64-bit integers, count
    as missing.
    """
    count = trace.row_count("profiled_kernel")
    values, is_known = np.zeros(count), np.zeros(count, np.bool_)
    if not trace.has("kernel_metric"):
        return values, is_known
    # Names of some formats are known only once they are read.
    columns = trace.columns("kernel_metric", "profiled_kernel_id", "name_id", "value")
    row = trace.strings.find(name)
    if row is None:
        return values, is_known
    chosen = columns["name_id"].values == row
    chosen &= columns["value"].is_valid() & (np.abs(columns["value"].values) < _LARGEST)
    launches = columns["profiled_kernel_id"].values[chosen]
    values[launches], is_known[launches] = columns["value"].values[chosen], True
    return values, is_known


def is_own(trace: Trace) -> BoolArray:
    """Return which launches Warpline counted and no report has, shape (launches,)."""
    return trace.columns("profiled_kernel", "is_range")["is_range"].is_valid()
