"""device_sum: busy and idle time of each GPU."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import dimension_texts
from warpline.derived.work.busy import DEVICE_TABLES, device_busy_ns, device_work
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "device_sum"
TITLE = "GPUs"
FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU, as recorded.", "GPU"),
    Field("name", Unit.NONE, "Product name.", "Name"),
    Field(
        "busy_ratio", Unit.RATIO, "Busy time as a share of the recorded time.", "Busy (%)", 100.0, 1
    ),
    Field(
        "busy_ns", Unit.NS, "Time during which at least one operation runs on the GPU.", "Busy (ns)"
    ),
    Field("idle_ns", Unit.NS, "Recorded time during which the GPU runs nothing.", "Idle (ns)"),
    Field("kernels", Unit.COUNT, "Kernels executed.", "Kernels"),
    Field("copies", Unit.COUNT, "Copies executed.", "Copies"),
    Field("memsets", Unit.COUNT, "Memsets executed.", "Memsets"),
    Field("graphs", Unit.COUNT, "CUDA graph launches traced at graph level.", "Graphs"),
    Field("uuid", Unit.NONE, "UUID.", "UUID"),
)
_COUNTED = {"kernels": "kernel", "copies": "memcpy", "memsets": "memset", "graphs": "graph_launch"}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    missing_hint="profile a program that uses a GPU, with --trace=cuda",
)
def device_sum(trace: Trace, arguments: Arguments) -> Result:
    """Busy and idle time of each GPU.

    What it measures: For each GPU that was used, its busy time and its idle time. A GPU is busy
        while at least one kernel, copy, memset or CUDA graph runs on it.
    Why it matters: An idle GPU waits for the CPU or for other GPUs, and faster kernels do not
        help. Look at this number first.
    How it is computed: Union of the intervals of all operations on the GPU, from all streams and
        processes, clipped to the recorded time. Busy plus idle time is the recorded time. With
        step sampling, the recorded time is that of the samples. GPU work that ends after a
        sample's last step stands in for the work of the previous step at the sample's start.
    Limits: Busy does not mean well used: one small kernel makes a GPU busy. Time before the
        program's first GPU operation and after its last counts as idle. Select a part with
        --filter-time or --filter-nvtx. GPU work removed by --exclude also counts as idle.
    Source: Warpline.
    """
    busy_ns = device_busy_ns(trace)
    counts = {name: _counts(trace, table, len(busy_ns)) for name, table in _COUNTED.items()}
    rows = np.flatnonzero(sum(counts.values()))
    span_ns = trace.recorded_ns()
    columns = trace.columns("device", "gpu_index", "name_id", "uuid_id")
    values: dict[str, Values] = {
        "gpu_index": Numbers(columns["gpu_index"].values[rows]),
        "name": dimension_texts(trace.strings, columns["name_id"], rows),
        "busy_ratio": Numbers(np.minimum(busy_ns[rows] / max(span_ns, 1), 1.0)),
        "busy_ns": Numbers(busy_ns[rows]),
        "idle_ns": Numbers(np.maximum(span_ns - busy_ns[rows], 0)),
        **{name: Numbers(count[rows]) for name, count in counts.items()},
        "uuid": dimension_texts(trace.strings, columns["uuid_id"], rows),
    }
    return Result(NAME, TITLE, FIELDS, values, ("gpu_index", "name"), _notes(busy_ns, rows))


def _counts(trace: Trace, table: str, n_devices: int) -> I64:
    return np.bincount(device_work(trace, table, clipped=False).device_id, minlength=n_devices)


def _notes(busy_ns: I64, rows: I64) -> tuple[str, ...]:
    unused = len(busy_ns) - len(rows)
    if not unused:
        return ()
    return (f"{plural(unused, 'other GPU')} idle in this part of the recording",)
