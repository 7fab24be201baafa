"""process_sum: recorded events by process."""

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
    Field("pid", Unit.NONE, "Process id.", "PID"),
    Field("name", Unit.NONE, "Executable.", "Name"),
    Field("calls", Unit.COUNT, "CUDA API calls.", "API Calls"),
    Field("kernels", Unit.COUNT, "Kernels launched.", "Kernels"),
    Field("copies", Unit.COUNT, "Copies launched.", "Copies"),
    Field("ranges", Unit.COUNT, "NVTX ranges.", "Ranges"),
    Field("os_calls", Unit.COUNT, "OS runtime calls.", "OS Calls"),
    Field("host", Unit.NONE, "Host name.", "Host"),
)
_COUNTED = {
    "calls": "api_call",
    "kernels": "kernel",
    "copies": "memcpy",
    "ranges": "range",
    "os_calls": "os_call",
}


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=())
def process_sum(trace: Trace, arguments: Arguments) -> Result:
    """Recorded events of each process.

    What it measures: The number of CUDA API calls, kernels, copies, ranges and OS runtime calls
        of each process. Processes without any are not listed.
    Why it matters: The table shows whether all ranks of a job were recorded, and whether work is
        spread evenly.
    How it is computed: Rows are counted by process.
    Limits: Counts do not show time.
    Source: Warpline.
    """
    columns = trace.columns("process", "pid", "name_id", "host_id")
    n_processes = len(columns["pid"])
    counts = {name: _counts(trace, table, n_processes) for name, table in _COUNTED.items()}
    rows = np.flatnonzero(sum(counts.values()))
    values: dict[str, Values] = {
        "pid": Numbers(columns["pid"].values[rows]),
        "name": dimension_texts(trace.strings, columns["name_id"], rows),
        **{name: Numbers(count[rows]) for name, count in counts.items()},
        "host": dimension_texts(trace.strings, columns["host_id"], rows),
    }
    return Result(NAME, TITLE, FIELDS, values, ("pid", "name"))


def _counts(trace: Trace, table: str, n_processes: int) -> I64:
    if not trace.has(table):
        return np.zeros(n_processes, np.int64)
    owners = trace.columns(table, "process_id", ordered=False)["process_id"].values
    return np.bincount(owners, minlength=n_processes)
