"""What the samples of a recording are: how many, how often, of how many threads."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.host.functions import stack_ids
from warpline.derived.host.samples import CPU_SAMPLES, PYTHON_SAMPLES, has_samples, weights
from warpline.ops.group import distinct_values
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural


@derived
def cpu_sample_notes(trace: Trace) -> tuple[str, ...]:
    """Return sentences on the CPU samples of a trace; none without samples."""
    return _notes(trace, CPU_SAMPLES, "CPU sample", "CPU time")


@derived
def python_sample_notes(trace: Trace) -> tuple[str, ...]:
    """Return sentences on the Python samples of a trace; none without samples."""
    return _notes(trace, PYTHON_SAMPLES, "Python sample", "time")


def _notes(trace: Trace, table: str, what: str, of: str) -> tuple[str, ...]:
    if not has_samples(trace, table):
        return ()
    time, thread = weights(trace, table), trace.columns(table, "thread_id")["thread_id"]
    threads = plural(len(distinct_values(thread.values[thread.is_valid()])), "thread")
    period = format_ns(float(np.median(time)))
    total = format_ns(int(time.sum()))
    has_stack = stack_ids(trace, table) >= 0
    notes = [f"{plural(len(time), what)} of {threads}: {total} of {of}, {period} each"]
    if not has_stack.all():
        notes.append(f"{format_ratio(1 - float(has_stack.mean()))} of them have no stack")
    return tuple(notes)
