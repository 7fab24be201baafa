"""kernel_durations: how the durations of each kernel are distributed."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import kernel_names
from warpline.ops.bins import power_bins, power_bounds
from warpline.ops.group import factorize_rows, group_sums
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_durations"
TITLE = "Distribution of kernel durations"
FIELDS = (
    Field("name", Unit.NONE, "Kernel name.", "Name"),
    Field("shortest_ns", Unit.NS, "Lower bound of the durations, included.", "From (ns)"),
    Field("longest_ns", Unit.NS, "Upper bound of the durations, excluded.", "To (ns)"),
    Field("instances", Unit.COUNT, "Number of kernels.", "Instances"),
    Field("total_ns", Unit.NS, "Sum of their durations.", "Total Time (ns)"),
    Field("event", Unit.NONE, "The longest of them.", "Event", is_detail=True),
)
_PER_DOUBLING = 4


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node for CUDA graphs",
)
def kernel_durations(trace: Trace, arguments: Arguments) -> Result:
    """Number of kernels by name and duration.

    What it measures: For each kernel name, how many of its executions have a duration in each of
        a series of bins.
    Why it matters: A mean hides that a kernel runs with several sizes, or that a few executions
        take much longer than the others.
    How it is computed: Bins are four per factor of two, with whole numbers of nanoseconds as
        bounds. Empty bins are not listed. Names are by falling total time, bins ascending. The
        event is the longest kernel of a bin, the first one among equals.
    Limits: Kernels in CUDA graphs traced at graph level are missing.
    Source: Warpline.
    """
    codes, distinct = kernel_names(trace)
    columns = trace.columns("kernel", "start_ns", "end_ns")
    length = np.maximum(columns["end_ns"].values - columns["start_ns"].values, 0)
    low = power_bins(length, _PER_DOUBLING)
    groups = factorize_rows(codes, low)
    first, n = groups.first, groups.n_groups
    total = group_sums(groups.codes, length, n)
    of_name = group_sums(codes, length, len(distinct))
    # Numbers of names depend on the file; equal names have one number.
    names = trace.strings.texts(distinct.tolist())
    place = np.argsort(np.argsort(np.array(names, np.object_), kind="stable"))
    order = np.lexsort((low[first], place[codes[first]], -of_name[codes[first]]))
    most = np.zeros(n, np.int64)
    np.maximum.at(most, groups.codes, length)
    lasting = np.flatnonzero(length == most[groups.codes])[::-1]
    longest = np.zeros(n, np.int64)
    longest[groups.codes[lasting]] = lasting  # the last assignment is the first of them
    bounds = power_bounds(_PER_DOUBLING)
    high = bounds[np.minimum(np.searchsorted(bounds, low[first], "right"), len(bounds) - 1)]
    values: dict[str, Values] = {
        "name": Texts(codes[first][order], names),
        "shortest_ns": Numbers(low[first][order]),
        "longest_ns": Numbers(high[order]),
        "instances": Numbers(np.bincount(groups.codes, minlength=n)[order]),
        "total_ns": Numbers(total[order]),
        "event": Texts(
            np.arange(n, dtype=np.int32), [f"kernel:{row}" for row in longest[order].tolist()]
        ),
    }
    return Result(NAME, TITLE, FIELDS, values, ("name", "shortest_ns"))
