"""device_sum: how busy each device was."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import dimension_texts
from warpline.derived.work.busy import DEVICE_TABLES, device_busy_ns, device_work
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "device_sum"
TITLE = "Devices"
FIELDS = (
    Field("gpu_index", Unit.NONE, "The producer's index of the GPU.", "GPU"),
    Field("name", Unit.NONE, "Product name.", "Name"),
    Field("busy_ratio", Unit.RATIO, "Busy share of the recorded time.", "Busy (%)", 100.0, 1),
    Field("busy_ns", Unit.NS, "Time in which something ran on it.", "Busy (ns)"),
    Field("idle_ns", Unit.NS, "Recorded time in which nothing ran on it.", "Idle (ns)"),
    Field("kernels", Unit.COUNT, "Kernels it ran.", "Kernels"),
    Field("copies", Unit.COUNT, "Copies it made.", "Copies"),
    Field("memsets", Unit.COUNT, "Memory sets it made.", "Memsets"),
    Field("graphs", Unit.COUNT, "Graphs it ran that were recorded as wholes.", "Graphs"),
    Field("uuid", Unit.NONE, "Unique id.", "UUID"),
)
_COUNTED = {"kernels": "kernel", "copies": "memcpy", "memsets": "memset", "graphs": "graph_launch"}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def device_sum(trace: Trace, arguments: Arguments) -> Result:
    """How busy each device was.

    What it measures: For each device that did something, the time in which at least one kernel,
        copy, memory set or whole graph ran on it, and the time in which nothing did.
    Why it matters: An idle device waits for the host or for other devices: faster kernels do not
        help there. It is the first number to look at.
    How it is computed: Union of the intervals of all operations on the device, from all streams
        and processes, cut to the recorded time; busy plus idle is the recorded time. Of a run
        whose steps were sampled that is the time of the samples: what the device did later, for a
        sample's last step, stands for what it did at its beginning for the step before.
    Limits: Busy does not mean well used: one small kernel makes a device busy. Time before the
        program's first operation and after its last counts as idle; choose a part with
        --filter-time or --filter-nvtx. What --exclude leaves out counts as idle, too.
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
    return np.bincount(device_work(trace, table).device_id, minlength=n_devices)


def _notes(busy_ns: I64, rows: I64) -> tuple[str, ...]:
    unused = len(busy_ns) - len(rows)
    if not unused:
        return ()
    return (f"{plural(unused, 'other device')} did nothing in this part of the recording",)
