"""samples: how often CPU threads were sampled, and how complete their stacks are."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.host.completeness import has_complete_stack
from warpline.derived.host.functions import stack_ids
from warpline.derived.host.samples import CPU_SAMPLES, PYTHON_SAMPLES, has_samples, weights
from warpline.ops.group import distinct_values
from warpline.result import Arguments, Field, Result, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "samples"
TITLE = "Samples of CPU threads"
FIELDS = (
    Field("kind", Unit.NONE, "CPU (threads on a CPU) or Python (all Python threads).", "Kind"),
    Field("samples", Unit.COUNT, "Number of samples.", "Samples"),
    Field("rate_hz", Unit.HZ, "Samples per second of a thread's time.", "Rate (Hz)"),
    Field("threads", Unit.COUNT, "Number of sampled threads.", "Threads"),
    Field("total_ns", Unit.NS, "Time that all samples stand for.", "Total (ns)"),
    Field("stack_ratio", Unit.RATIO, "Share of samples with a stack.", "With Stack (%)", 100.0, 1),
    Field(
        "complete_ratio",
        Unit.RATIO,
        "Share of samples with a complete stack.",
        "Complete (%)",
        100.0,
        1,
    ),
)
_KINDS = {CPU_SAMPLES: "CPU", PYTHON_SAMPLES: "Python"}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=tuple(_KINDS),
    missing_hint="profile with --sample=process-tree",
)
def samples(trace: Trace, arguments: Arguments) -> Result:
    """How many samples of CPU threads there are, how often they were taken, and their stacks.

    What it measures: Number, rate, threads and time of CPU samples and Python samples, and the
        share that have a stack, and a complete one.
    Why it matters: A share of few samples is uncertain, and functions above the end of an
        incomplete stack get too little time.
    How it is computed: The rate is that of the median sample. A stack is complete if one of its two
        outermost frames is where the C library or Python starts a process or a thread.
    Limits: A stack that ends in code without symbols counts as incomplete.
    Source: Warpline.
    """
    rows = [_row(trace, table) for table in _KINDS if has_samples(trace, table)]
    values: dict[str, Values] = {
        field.name: column_of([row[field.name] for row in rows]) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, values, ("kind",))


def _row(trace: Trace, table: str) -> dict[str, Any]:
    time, thread = weights(trace, table), trace.columns(table, "thread_id")["thread_id"]
    period = float(np.median(time))
    return {
        "kind": _KINDS[table],
        "samples": len(time),
        "rate_hz": round(1e9 / period) if period > 0 else None,
        "threads": len(distinct_values(thread.values[thread.is_valid()])),
        "total_ns": int(time.sum()),
        "stack_ratio": float((stack_ids(trace, table) >= 0).mean()),
        "complete_ratio": float(has_complete_stack(trace, table).mean()),
    }
