"""cuda_gpu_kern_gb_sum: the time of kernels by name and launch geometry."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.derived.summaries.events import kernel_durations_by_launch
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS
from warpline.derived.summaries.summary import summarize, time_fields
from warpline.derived.work.graphs import graph_notes
from warpline.result import Arguments, Field, Result, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "cuda_gpu_kern_gb_sum"
TITLE = "CUDA GPU kernel summary by grid and block"
FIELDS = time_fields(
    [
        Field("grid", Unit.NONE, "Blocks in x, y and z.", "GridXYZ"),
        Field("block", Unit.NONE, "Threads of a block in x, y and z.", "BlockXYZ"),
        Field("name", Unit.NONE, "Kernel.", "Name"),
    ]
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    aliases=("gpukerngbsum",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_gpu_kern_gb_sum(trace: Trace, arguments: Arguments) -> Result:
    """The time that kernels ran on devices, by kernel and launch geometry.

    What it measures: How often each kernel ran with each size of grid and block, and for how
        long.
    Why it matters: The same kernel on other sizes of data is another cost. A grid smaller than
        the number of multiprocessors leaves part of the device idle.
    How it is computed: End minus start of each execution, grouped by name, grid and block. Each
        size is three numbers, x, y and z, set to width 4 as nsys does.
    Limits: As for cuda_gpu_kern_sum: kernels that overlap are counted in full, and kernels of
        graphs that were recorded as wholes are missing.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_kern_gb_sum`; P95 and P99 are
        ours.
    """
    events = kernel_durations_by_launch(trace, arguments)
    labels: dict[str, Sequence[str | None]] = {
        "grid": [_size(label[1:4]) for label in events.labels],
        "block": [_size(label[4:7]) for label in events.labels],
        "name": events.texts(0),
    }
    name, notes = (NAME, *arguments), graph_notes(trace)
    return summarize(name, TITLE, FIELDS, events, labels, notes, rarer_first=True)


def _size(parts: tuple[str | int | None, ...]) -> str:
    return " ".join(f"{part:>4}" for part in parts)
