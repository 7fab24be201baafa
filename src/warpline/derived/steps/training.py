"""Steps of PyTorch programs without step ranges, from ranges that --pytorch records.

A step ends where a step of the optimizer ends. So micro-batches whose gradients are accumulated are
one step, and so is what runs between two optimizer steps. Without optimizers, a step begins where
the program asks for a batch.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.steps.ranges import HostSteps
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64
from warpline.ops.group import distinct_values
from warpline.ops.tree import nest
from warpline.trace import Trace

# PyTorch's names, in Warpline's domain. Those of its own profilers are not taken: there, steps are
# inferred from launches.
_OPTIMIZER = lazy_pattern(r"torch:Optimizer\.step#")
_LOADER = lazy_pattern(r"torch:enumerate\(DataLoader\)#")
_LEAST = 3  # two periods


@derived
def training_steps(trace: Trace) -> HostSteps | None:
    """Return the steps between optimizer steps, otherwise between batches; None without either."""
    if not trace.has("range") or not trace.row_count("range"):
        return None
    return _between(trace, "optimizer steps", "end_ns") or _between(trace, "batches", "start_ns")


def _between(trace: Trace, what: str, bound: str) -> HostSteps | None:
    """Return the periods between bounds of ranges of one name, in each process."""
    pattern = _OPTIMIZER if what == "optimizer steps" else _LOADER
    names = range_names(trace)
    is_one = np.array([bool(text and pattern.match(text)) for text in names.texts], np.bool_)
    rows = np.flatnonzero(is_one[names.codes] & push_pop_ranges(trace))
    columns = trace.columns("range", "start_ns", "end_ns", "process_id", "thread_id")
    start, end, process, thread = (
        column.values[rows].astype(np.int64) for column in columns.values()
    )
    outer = np.flatnonzero(~nest(start, np.maximum(start, end), thread).has_parent)
    at = (end if bound == "end_ns" else start)[outer]
    codes = names.codes[rows[outer]]
    parts = [
        part
        for number in distinct_values(process[outer]).tolist()
        for part in (_of_process(codes, at, np.flatnonzero(process[outer] == number)),)
        if len(part) >= _LEAST
    ]
    if not parts:
        return None
    return _as_steps(parts, at, process[outer], thread[outer], what)


def _of_process(codes: I32, at: I64, own: I64) -> I64:
    """Return those of one process's ranges that bound its steps, by time.

    Of several names, such as two kinds of optimizers, the one that comes first counts.
    """
    own = own[np.argsort(at[own], kind="stable")]
    chosen: I64 = own[codes[own] == codes[own[0]]]
    return chosen


def _as_steps(parts: list[I64], at: I64, process: I64, thread: I64, what: str) -> HostSteps:
    first = np.concatenate([part[:-1] for part in parts])
    last = np.concatenate([part[1:] for part in parts])
    counts = [len(part) - 1 for part in parts]
    number = np.concatenate([np.arange(count) for count in counts])
    return HostSteps(
        source=f"between {what}",
        start_ns=at[first],
        end_ns=at[last],
        process=process[first],
        thread=thread[first],
        loop=np.repeat(np.arange(len(parts)), counts),
        number=number,
        label=number,
        labels=tuple(f"step {place}" for place in range(max(counts))),
        is_cut=np.zeros(len(first), np.bool_),
        notes=(f"no range names steps: they are the periods between {what}",),
    )
