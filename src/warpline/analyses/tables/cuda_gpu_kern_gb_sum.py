"""cuda_gpu_kern_gb_sum: kernel time by name, grid and block."""

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
TITLE = "CUDA GPU kernel/grid/block summary"
FIELDS = time_fields(
    [
        Field("grid", Unit.NONE, "Grid size: blocks in x, y and z.", "GridXYZ"),
        Field("block", Unit.NONE, "Block size: threads in x, y and z.", "BlockXYZ"),
        Field("name", Unit.NONE, "Kernel name.", "Name"),
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
    """GPU time by kernel, grid size and block size.

    What it measures: Count and time of each kernel, for each grid size and block size.
    Why it matters: The same kernel takes a different time for each problem size. A grid with fewer
        blocks than the GPU has SMs leaves SMs idle.
    How it is computed: End minus start of each execution, grouped by name, grid and block. Each
        size is three numbers (x, y and z), padded to width 4 as in nsys.
    Limits: Same as cuda_gpu_kern_sum: overlapping kernels count in full, and kernels inside CUDA
        graphs traced at graph level are missing.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_kern_gb_sum`; P95 and P99 are
        added by Warpline.
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
