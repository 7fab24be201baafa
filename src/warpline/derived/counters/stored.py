"""Values of metrics as a trace stores them."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.trace import Trace

_LARGEST = 2.0**62


@derived
def _rows_by_name(trace: Trace) -> tuple[I64, I64]:
    """Return the rows of `kernel_metric` by name, and where the rows of each text start.

    Hundreds of metrics are looked up, each among as many as a report has.
    """
    names = trace.columns("kernel_metric", "name_id")["name_id"].values
    counts = np.bincount(names, minlength=len(trace.strings))
    # Few bits are sorted faster.
    codes = names.astype(np.int16) if len(counts) < 1 << 15 else names
    return np.argsort(codes, kind="stable"), np.append(0, np.cumsum(counts))


def rows_of_metric(trace: Trace, name: str) -> I64:
    """Return the rows of `kernel_metric` that have a metric, ascending, shape (n,)."""
    if not trace.has("kernel_metric"):
        return np.zeros(0, np.int64)
    # Names of some formats are known only once they are read.
    rows, starts = _rows_by_name(trace)
    text = trace.strings.find(name)
    if text is None or text + 1 >= len(starts):  # the pool of texts grows
        return rows[:0]
    return rows[starts[text] : starts[text + 1]]


def stored_numbers(trace: Trace, name: str) -> tuple[F64, BoolArray]:
    """Return the stored value of a metric of each profiled launch, and which launches have one.

    Both have shape (launches,). Values that are not finite, or too large for 64-bit integers, count
    as missing.
    """
    count = trace.row_count("profiled_kernel")
    values, is_known = np.zeros(count), np.zeros(count, np.bool_)
    rows = rows_of_metric(trace, name)
    if not len(rows):
        return values, is_known
    columns = trace.columns("kernel_metric", "profiled_kernel_id", "value")
    stored = columns["value"].take(rows)
    is_number = stored.is_valid() & (np.abs(stored.values) < _LARGEST)
    launches = columns["profiled_kernel_id"].values[rows[is_number]]
    values[launches], is_known[launches] = stored.values[is_number], True
    return values, is_known


def is_own(trace: Trace) -> BoolArray:
    """Return which launches Warpline counted and no report has, shape (launches,)."""
    return trace.columns("profiled_kernel", "is_range")["is_range"].is_valid()
