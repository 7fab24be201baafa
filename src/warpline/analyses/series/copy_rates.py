"""copy_rates: bytes and bandwidth of copies over time, by direction."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import labelled
from warpline.ops.bins import equal_bins
from warpline.ops.group import factorize_rows, group_sums
from warpline.ops.interval import union
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.schema.labels import COPY_KINDS
from warpline.trace import Trace
from warpline.units import Unit

NAME = "copy_rates"
TITLE = "Copies over time"
FIELDS = (
    Field("direction", Unit.NONE, "Direction.", "Direction"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("start_ns", Unit.NS, "Start of the interval.", "Start (ns)"),
    Field("end_ns", Unit.NS, "End of the interval.", "End (ns)"),
    Field("instances", Unit.COUNT, "Copies that start in it.", "Count"),
    Field("total_bytes", Unit.BYTES, "Their size.", "Total (MB)", 1e-6, 3),
    Field("busy_ns", Unit.NS, "Time during which at least one of them runs.", "Busy (ns)"),
    Field(
        "bandwidth_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes divided by busy time.",
        "Bandwidth (GB/s)",
        1e-9,
        3,
    ),
    Field("event", Unit.NONE, "The largest of them.", "Event", is_detail=True),
)
_INTERVALS = 200


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy",),
    missing_hint="profile a program that copies memory, with --trace=cuda",
)
def copy_rates(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Bytes and bandwidth of copies over time, by direction.

    What it measures: For each direction and GPU, and each of up to 200 equal intervals, the number
        and size of the copies, their time, and their bandwidth.
    Why it matters: Copies in bursts can hide behind kernels. A bandwidth far below that of the link
        comes from small copies or from pageable memory.
    How it is computed: A copy belongs to the interval in which it starts, with all its bytes and
        time. Time is the union of the copies' own intervals. Bandwidth is bytes divided by time.
        Intervals run from the first copy to the last one of the recording. Those without copies are
        not listed. The event is the largest copy, the first one among equals.
    Limits: Those of table copy_sum. Busy times of two intervals may overlap.
    Source: Warpline.
    """
    names = ("start_ns", "end_ns", "bytes", "kind", "device_id")
    columns = trace.columns("memcpy", *names)
    start, size = columns["start_ns"].values, columns["bytes"].values.astype(np.int64)
    if not len(start):
        return Skipped(NAME, "no copies in the trace", "profile a program that copies memory")
    end = np.maximum(columns["end_ns"].values, start)
    kind, device = (columns[name].filled(-1).astype(np.int64) for name in ("kind", "device_id"))
    bins = equal_bins(int(start.min()), int(start.max()) + 1, _INTERVALS)
    groups = factorize_rows(kind, device, bins.of(start))
    first, n = groups.first, groups.n_groups
    total = group_sums(groups.codes, size, n)
    order = np.argsort(groups.codes, kind="stable")
    busy = np.zeros(n, np.int64)
    for number, rows in enumerate(np.split(order, np.cumsum(np.bincount(groups.codes))[:-1])):
        own = union(start[rows], end[rows])
        busy[number] = (own.end - own.start).sum()
    largest = np.zeros(n, np.int64)
    by_size = np.lexsort((-np.arange(len(size)), size))
    largest[groups.codes[by_size]] = by_size
    edges, place = bins.edges_ns, bins.of(start)[first]
    kinds = np.unique(kind)
    gpu = trace.columns("device", "gpu_index")["gpu_index"].values[device[first]]
    values: dict[str, Values] = {
        "direction": labelled(
            np.searchsorted(kinds, kind[first]),
            [COPY_KINDS.get(each, f"kind {each}") for each in kinds.tolist()],
        ),
        "gpu_index": Numbers(gpu.astype(np.int64)),
        "start_ns": Numbers(edges[place]),
        "end_ns": Numbers(edges[place + 1]),
        "instances": Numbers(np.bincount(groups.codes, minlength=n)),
        "total_bytes": Numbers(total),
        "busy_ns": Numbers(busy),
        "bandwidth_bytes_per_s": Numbers(total * 1e9 / np.maximum(busy, 1), busy > 0),
        "event": Texts(np.arange(n, dtype=np.int32), [f"memcpy:{row}" for row in largest.tolist()]),
    }
    return Result(NAME, TITLE, FIELDS, values, ("direction", "gpu_index", "start_ns"))
