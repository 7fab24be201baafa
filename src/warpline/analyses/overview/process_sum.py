"""process_sum: what each process did."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import dimension_texts
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "process_sum"
TITLE = "Processes"
FIELDS = (
    Field("pid", Unit.NONE, "The operating system's id.", "PID"),
    Field("name", Unit.NONE, "Executable.", "Name"),
    Field("threads", Unit.COUNT, "Its threads that were seen.", "Threads"),
    Field("calls", Unit.COUNT, "Its calls of the CUDA interfaces.", "API Calls"),
    Field("kernels", Unit.COUNT, "Kernels it launched.", "Kernels"),
    Field("copies", Unit.COUNT, "Copies it asked for.", "Copies"),
    Field("ranges", Unit.COUNT, "Ranges it marked.", "Ranges"),
    Field("host", Unit.NONE, "Host it ran on.", "Host"),
)
_COUNTED = {"calls": "api_call", "kernels": "kernel", "copies": "memcpy", "ranges": "range"}


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=())
def process_sum(trace: Trace, arguments: Arguments) -> Result:
    """What each recorded process did.

    What it measures: How many CUDA calls, kernels, copies and ranges each process has.
    Why it matters: It says whether all ranks of a job were recorded, and whether work is spread
        evenly.
    How it is computed: Rows are counted by process.
    Limits: Counts say nothing about time.
    Source: Warpline.
    """
    columns = trace.columns("process", "pid", "name_id", "host_id")
    every = np.arange(len(columns["pid"]))
    threads = trace.columns("thread", "process_id")["process_id"].values
    values: dict[str, Values] = {
        "pid": Numbers(columns["pid"].values),
        "name": dimension_texts(trace.strings, columns["name_id"], every),
        "threads": Numbers(np.bincount(threads, minlength=len(every))),
        **{name: Numbers(_counts(trace, table, len(every))) for name, table in _COUNTED.items()},
        "host": dimension_texts(trace.strings, columns["host_id"], every),
    }
    return Result(NAME, TITLE, FIELDS, values, ("pid", "name"))


def _counts(trace: Trace, table: str, n_processes: int) -> I64:
    if not trace.has(table):
        return np.zeros(n_processes, np.int64)
    owners = trace.columns(table, "process_id", ordered=False)["process_id"].values
    return np.bincount(owners, minlength=n_processes)
