"""managed-memory: pages of managed memory migrate between host and GPU on demand."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.exposed import exposed_ns, running_ns, unit_of
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ns, format_ratio, plural

NAME = "managed-memory"
TITLE = "Pages of managed memory migrate on demand"

# A page fault moves at most a block without the faulting page; a requested prefetch moves blocks.
_BLOCK_BYTES = 2 << 20


@rule(name=NAME, title=TITLE)
def managed_memory(run: Run) -> list[Finding]:
    """Page migrations of managed memory between host and GPU.

    What it finds: Migrations of less than 2 MiB that take at least 5% of the time.
    Why it matters: At the first access to a page that is elsewhere, a kernel or the CPU waits until
        it is moved. Each page fault takes tens of microseconds, and moves little data.
    How it is found: By the kind of copy that the driver records for migrations.
    What to do: Move data ahead of its use, in large blocks.
    Limits: The kernels that wait for pages would be faster without migrations, by an unknown
        amount, so no saving is estimated. Blocks of 2 MiB are prefetches that the program requests.
        Smaller ones look like page faults.
    Source: CUDA C++ Programming Guide, unified memory; recordings of programs that do not prefetch.
    """
    trace = run.trace
    moved = _migrations(trace)
    if not moved.any():
        return []
    scope, parts, moving_ns = step_scope(run), step_partition(run), running_ns(run, moved)
    worked_ns = int(np.delete(parts.ns, int(TimePart.TAIL), axis=1).sum())
    share = int(moving_ns.sum()) / worked_ns if worked_ns else 0.0
    if share < MEASURABLE_RATIO:
        return []
    unit = unit_of(run)
    each = float(moving_ns.sum()) / unit.number
    hidden = each - float(exposed_ns(run, moved).sum()) / unit.number
    size = trace.columns("memcpy", "bytes")["bytes"].values
    chosen = np.flatnonzero(moved & scope.operations)
    total = int(size[operations(trace).row[chosen]].sum())
    many = plural(max(round(len(chosen) / unit.number), 1), "page migration")
    told = f"{many}{unit.each}, {format_bytes(total / unit.number)}"
    waits = ""
    if hidden:
        waits = f" Other GPU work runs in {format_ns(hidden)} of that, and may wait for the pages."
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Page migrations of managed memory take {format_ratio(share)} of the time",
            f"Pages migrate between host and GPU for {format_ns(each)}{unit.each}"
            f" ({format_ratio(share)}): {told}, {format_bytes(total / max(len(chosen), 1))} at a"
            f" time.{waits}",
            (scope.show_operations(told, moved),),
            "Keep tensors in GPU memory instead of managed memory: if memory allows, turn off paged"
            " optimizers and managed memory pools.",
            "Profile again: `warpline stats -r breakdown` shows less copy-managed time.",
            fix_cuda="Call cudaMemPrefetchAsync before kernels or the CPU use the data, and"
            " cudaMemAdvise for data that both only read. Or use cudaMalloc and copy explicitly"
            " from pinned memory.",
            fix_in={"jax": "Keep arrays in GPU memory: unset TF_FORCE_UNIFIED_MEMORY."},
            share=share,
            on_devices=scope.windows_on_devices(moving_ns),
        )
    ]


def _migrations(trace: Trace) -> BoolArray:
    """Return which operations are migrations that the program did not request."""
    work = operations(trace)
    moved: BoolArray = operation_categories(trace) == TimePart.COPY_MANAGED
    if moved.any():
        size = trace.columns("memcpy", "bytes")["bytes"].values
        moved[moved] = size[work.row[moved]] < _BLOCK_BYTES
    return moved
