"""launch_queue: delay from launch to start, and launches in the queue, over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.kernel_launches import KernelLaunches, kernel_launches
from warpline.ops.bins import equal_bins
from warpline.ops.group import distinct_values, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "launch_queue"
TITLE = "Launch queue over time"
FIELDS = (
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("start_ns", Unit.NS, "Start of the interval.", "Start (ns)"),
    Field("end_ns", Unit.NS, "End of the interval.", "End (ns)"),
    Field("kernels", Unit.COUNT, "Kernels that start in it.", "Kernels"),
    Field(
        "median_ns", Unit.NS, "Median time from launch to start of those.", "Med Delay (ns)", 1, 1
    ),
    Field("max_ns", Unit.NS, "Longest such time.", "Max Delay (ns)"),
    Field("mean_queued", Unit.COUNT, "Mean number of queued kernels.", "Mean Queued", digits=2),
    Field("max_queued", Unit.COUNT, "Largest number of queued kernels.", "Max Queued"),
    Field("event", Unit.NONE, "The kernel with the longest delay.", "Event", is_detail=True),
)
_INTERVALS = 400
_LAST = np.iinfo(np.int64).max


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel", "api_call"),
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node for CUDA graphs",
)
def launch_queue(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Delay from launch to start, and number of queued kernels, over time.

    What it measures: For each GPU and each of up to 400 equal intervals, the time from the start
        of a kernel's launch call to the kernel's start, and how many launched kernels have not
        started.
    Why it matters: A long queue hides pauses of the CPU. Where the queue is empty, the GPU waits
        for each launch, and every pause of the CPU makes it idle.
    How it is computed: A kernel is queued from the start of its launch call until it starts. The
        mean is the queued time of all kernels in the interval divided by its width, the maximum the
        largest number at one moment. Delays belong to the interval in which the kernel starts.
        Intervals run from the first launch to the last start on each GPU.
    Limits: Kernels without a recorded launch call are not included, nor are copies. Kernels of a
        CUDA graph are queued from the launch of the graph. A kernel that starts before its call,
        because clocks differ, has no delay.
    Source: Warpline.
    """
    launches = kernel_launches(trace)
    if not len(launches.kernel):
        return Skipped(NAME, "no kernel has a recorded launch call", "profile with --trace=cuda")
    parts = [
        _of_gpu(launches, np.flatnonzero(launches.device == gpu), gpu)
        for gpu in distinct_values(launches.device.astype(np.int64)).tolist()
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    started = columns["kernels"] > 0
    events = [f"kernel:{row}" for row in columns.pop("event").tolist()]
    values: dict[str, Any] = {
        name: Numbers(column, started) if name in {"median_ns", "max_ns"} else Numbers(column)
        for name, column in columns.items()
    }
    codes = np.where(started, np.arange(len(events)), -1).astype(np.int32)
    values["event"] = Texts(codes, events)
    return Result(NAME, TITLE, FIELDS, values, ("gpu_index", "start_ns"), graph_notes(trace))


def _of_gpu(launches: KernelLaunches, rows: Any, gpu: int) -> dict[str, Any]:
    """Return the columns of one GPU; the event is a row of kernel."""
    begin = launches.api_start_ns[rows]
    start = np.maximum(launches.kernel_start_ns[rows], begin)
    bins = equal_bins(int(begin.min()), int(start.max()) + 1, _INTERVALS)
    place = bins.of(start)
    delay = group_stats(place, start - begin, bins.count)
    # The longest delay of each interval, the first kernel among equals.
    longest = np.flatnonzero(start - begin == delay.max[place])
    event = np.full(bins.count, _LAST, np.int64)
    np.minimum.at(event, place[longest], launches.kernel[rows[longest]])
    event[event == _LAST] = 0
    edges = bins.edges_ns
    has_any = delay.count > 0
    return {
        "gpu_index": np.full(bins.count, gpu, np.int64),
        "start_ns": edges[:-1],
        "end_ns": edges[1:],
        "kernels": delay.count,
        "median_ns": np.where(has_any, delay.median, 0.0),
        "max_ns": np.where(has_any, delay.max, 0),
        "mean_queued": bins.covered_ns(begin, start) / bins.width_ns,
        "max_queued": bins.most(begin, start),
        "event": event,
    }
