"""copy_sum: copies by direction and memory, with their bandwidth."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import labelled
from warpline.derived.work.busy import device_work
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.schema.tables import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Trace
from warpline.units import Unit

NAME = "copy_sum"
TITLE = "Copies"
FIELDS = (
    Field("busy_ns", Unit.NS, "Time in which at least one of them ran.", "Busy (ns)"),
    Field("total_bytes", Unit.BYTES, "Bytes copied.", "Total (MB)", 1e-6, 3),
    Field("instances", Unit.COUNT, "How many there were.", "Count"),
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
        "Kinds of the source and the destination memory; none between plain device memory.",
        "Memory",
    ),
)
_DEVICE = next(value for value, label in MEMORY_KINDS.items() if label == "Device")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("memcpy",),
    missing_hint="profile with --trace=cuda a program that copies memory",
)
def copy_sum(trace: Trace, arguments: Arguments) -> Result:
    """Copies by direction and kind of memory, with their bandwidth.

    What it measures: How much was copied from which kind of memory to which, how long it took,
        and how fast it went.
    Why it matters: Copies from pageable host memory are slower than from pinned memory, make the
        host wait, and cannot overlap with kernels.
    How it is computed: Bytes are summed; time is the union of the intervals on each device, added
        over devices; bandwidth is bytes by time.
    Limits: A copy within a device reads and writes every byte, and this counts it once. Copies
        that kernels make themselves, and copies inside graphs that were recorded as wholes, are
        missing. In a part of the recording, a copy that only overlaps with it counts in full.
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
    """Return such as ``Pageable to Device``; None where both are device memory, or unknown."""
    if source == target and source in {-1, _DEVICE}:
        return None
    names = (MEMORY_KINDS.get(kind, "Unknown") for kind in (source, target))
    return " to ".join(names)
