"""copy_sum: copies by direction and memory kind, with bandwidth."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import labelled
from warpline.derived.work.busy import device_work
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace
from warpline.units import Unit

NAME = "copy_sum"
TITLE = "Copies"
FIELDS = (
    Field("busy_ns", Unit.NS, "Time during which at least one of these copies runs.", "Busy (ns)"),
    Field("total_bytes", Unit.BYTES, "Bytes copied.", "Total (MB)", 1e-6, 3),
    Field("instances", Unit.COUNT, "Number of copies.", "Count"),
    Field(
        "bandwidth_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes divided by busy time.",
        "Bandwidth (GB/s)",
        1e-9,
        3,
    ),
    Field("direction", Unit.NONE, "Direction.", "Direction"),
    Field(
        "memory",
        Unit.NONE,
        "Source and destination memory kinds; empty for copies within device memory.",
        "Memory",
    ),
)
_DEVICE = next(value for value, label in MEMORY_KINDS.items() if label == "Device")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy",),
    missing_hint="profile a program that copies memory, with --trace=cuda",
)
def copy_sum(trace: Trace, arguments: Arguments) -> Result:
    """Copies by direction and memory kind, with bandwidth.

    What it measures: Bytes copied, time, and bandwidth, for each direction and each pair of
        source and destination memory kinds.
    Why it matters: Copies from pageable host memory are slower than copies from pinned memory,
        block the CPU thread, and cannot overlap with kernels.
    How it is computed: Bytes are summed. Time is the union of the copy intervals on each GPU,
        added over GPUs. Bandwidth is bytes divided by time.
    Limits: A device-to-device copy reads and writes every byte, but is counted once. Copies done
        by kernels, and copies inside CUDA graphs traced at graph level, are missing. With a time
        filter, a copy that overlaps the selected time only in part counts in full.
    Source: Warpline.
    """
    columns = trace.columns("memcpy", "bytes", "kind", "src_memory", "dst_memory", ordered=False)
    keys = [columns[name].filled(-1) for name in ("kind", "src_memory", "dst_memory")]
    groups = factorize_rows(*keys)
    work = device_work(trace, "memcpy", clipped=False)
    busy_ns = work.busy_ns(groups.codes, groups.n_groups)
    total_bytes = group_stats(groups.codes, columns["bytes"].values, groups.n_groups)
    order = np.argsort(-busy_ns, kind="stable")
    kinds, sources, targets = (key[groups.first].tolist() for key in keys)
    memories = [_memory(a, b) for a, b in zip(sources, targets, strict=True)]
    values: dict[str, Values] = {
        "busy_ns": Numbers(busy_ns[order]),
        "total_bytes": Numbers(total_bytes.sum[order]),
        "instances": Numbers(total_bytes.count[order]),
        "bandwidth_bytes_per_s": Numbers(
            total_bytes.sum[order] * 1e9 / np.maximum(busy_ns[order], 1), busy_ns[order] > 0
        ),
        "direction": labelled(order, [COPY_KINDS.get(kind, f"kind {kind}") for kind in kinds]),
        "memory": labelled(order, memories),
    }
    return Result(NAME, TITLE, FIELDS, values, ("direction", "memory"))


def _memory(source: int, target: int) -> str | None:
    """Return a text such as ``Pageable to Device``; None if both are device memory or unknown."""
    if source == target and source in {-1, _DEVICE}:
        return None
    names = (MEMORY_KINDS.get(kind, "Unknown") for kind in (source, target))
    return " to ".join(names)
