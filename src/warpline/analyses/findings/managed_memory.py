"""managed-memory: pages of managed memory migrate between host and GPU on demand."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.exposed import covered_ns, exposed_ns, unit_of
from warpline.derived.breakdown.page_faults import PageFaults, page_faults
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.memory.pages import GPU_FAULTS
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tiling import Grouped
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ns, format_ratio, plural

NAME = "managed-memory"
TITLE = "Pages of managed memory migrate on demand"

# A page fault moves at most a block without the faulting page; a requested prefetch moves blocks.
_BLOCK_BYTES = 2 << 20
_UNKNOWN, _REQUESTED = 0, 1  # of schema.labels.MIGRATION_CAUSES
_SHOWN = 5
_MOST = 0.5  # of the page faults of the CPU


@rule(name=NAME, title=TITLE)
def managed_memory(run: Run) -> list[Finding]:
    """Page migrations of managed memory between host and GPU.

    What it finds: Migrations that the program did not request, and page faults of GPUs, that take
        at least 5% of the time.
    Why it matters: At the first access to a page that is elsewhere, a kernel or the CPU waits until
        it is moved. Each page fault takes tens of microseconds, and moves little data.
    How it is found: By the kind of copy that the driver records for migrations, and by its cause.
        If page faults of GPUs were recorded, the time in which the driver handles them counts, too.
    What to do: Move data ahead of its use, in large blocks.
    Limits: The kernels that wait for pages would be faster without migrations, by an unknown
        amount, so no saving is estimated. If causes are missing, blocks of 2 MiB are regarded as
        prefetches that the program requests, smaller ones as page faults. Page faults are recorded
        with --cuda-um-gpu-page-faults and --cuda-um-cpu-page-faults.
    Source: CUDA C++ Programming Guide, unified memory; recordings of programs that do not prefetch.
    """
    trace = run.trace
    moved, faults = _migrations(trace), page_faults(run)
    if not moved.any() and not faults.on_gpu:
        return []
    scope, parts = step_scope(run), step_partition(run)
    taken_ns = covered_ns(run, _times(trace, moved, faults))
    worked_ns = int(np.delete(parts.ns, int(TimePart.TAIL), axis=1).sum())
    share = int(taken_ns.sum()) / worked_ns if worked_ns else 0.0
    if share < MEASURABLE_RATIO:
        return []
    unit = unit_of(run)
    each = float(taken_ns.sum()) / unit.number
    what = "Page faults and migrations" if faults.on_gpu else "Page migrations"
    done = (
        "Page faults are handled, and pages migrate between host and GPU,"
        if faults.on_gpu
        else "Pages migrate between host and GPU"
    )
    moves = _moves(run, scope, moved)
    claim = f"{done} for {format_ns(each)}{unit.each} ({format_ratio(share)})"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"{what} of managed memory take {format_ratio(share)} of the time",
            f"{claim}{moves}.{_fault_sentence(run, faults)}{_hidden(run, moved, each)}",
            _evidence(run, scope, moved, faults),
            "Keep tensors in GPU memory instead of managed memory: if memory allows, turn off paged"
            " optimizers and managed memory pools.",
            "Profile again: `warpline stats -r breakdown` shows less copy-managed time.",
            fix_cuda="Call cudaMemPrefetchAsync before kernels or the CPU use the data, and"
            " cudaMemAdvise for data that both only read. Or use cudaMalloc and copy explicitly"
            " from pinned memory.",
            fix_in={"jax": "Keep arrays in GPU memory: unset TF_FORCE_UNIFIED_MEMORY."},
            share=share,
            on_devices=scope.windows_on_devices(taken_ns),
        )
    ]


def _migrations(trace: Trace) -> BoolArray:
    """Return which operations are migrations that the program did not request."""
    work = operations(trace)
    moved: BoolArray = operation_categories(trace) == TimePart.COPY_MANAGED
    if moved.any():
        columns = trace.columns("memcpy", "bytes", "migration_cause")
        size, cause = (column.take(work.row[moved]) for column in columns.values())
        is_known = cause.is_valid() & (cause.values != _UNKNOWN)
        moved[moved] = np.where(is_known, cause.values != _REQUESTED, size.values < _BLOCK_BYTES)
    return moved


def _times(trace: Trace, moved: BoolArray, faults: PageFaults) -> Grouped:
    """Return when pages migrated or their faults were handled, by device."""
    work, rows = operations(trace), np.flatnonzero(moved)
    moving = Grouped(work.start_ns[rows], work.end_ns[rows], work.device[rows])
    both = zip(moving, faults.handling, strict=True)
    return Grouped(*(np.concatenate(parts) for parts in both))


def _told(run: Run, scope: StepScope, moved: BoolArray) -> tuple[str, I64, int]:
    """Return a text about the migrations of the steps, which they are, and their bytes."""
    unit, chosen = unit_of(run), np.flatnonzero(moved & scope.operations)
    total = 0
    if len(chosen):
        size = run.trace.columns("memcpy", "bytes")["bytes"].values
        total = int(size[operations(run.trace).row[chosen]].sum())
    many = plural(max(round(len(chosen) / unit.number), 1), "page migration")
    return f"{many}{unit.each}, {format_bytes(total / unit.number)}", chosen, total


def _moves(run: Run, scope: StepScope, moved: BoolArray) -> str:
    if not moved.any():
        return ""
    told, chosen, total = _told(run, scope, moved)
    return f": {told}, {format_bytes(total / max(len(chosen), 1))} at a time"


def _fault_sentence(run: Run, faults: PageFaults) -> str:
    """Return a sentence about the page faults that were recorded; it begins with a blank."""
    unit = unit_of(run)
    counts = (("GPU", faults.on_gpu), ("CPU", faults.on_cpu))
    told = [f"{_rounded(n / unit.number)} of the {where}" for where, n in counts if n]
    if not told:
        return ""
    often = faults.function and faults.in_function >= _MOST * faults.on_cpu
    where = f", mostly in {faults.function}" if often else ""
    return f" Page faults{unit.each}: {' and '.join(told)}{where}."


def _rounded(number: float) -> str:
    return f"{max(round(number), 1):,}"


def _hidden(run: Run, moved: BoolArray, each: float) -> str:
    """Return a sentence about other work in the time of migrations; it begins with a blank."""
    exposed = float(exposed_ns(run, moved).sum()) / unit_of(run).number
    if each <= exposed:
        return ""
    hidden = format_ns(each - exposed)
    return f" Other GPU work runs in {hidden} of that, and may wait for the pages."


def _evidence(
    run: Run, scope: StepScope, moved: BoolArray, faults: PageFaults
) -> tuple[Evidence, ...]:
    found = []
    if moved.any():
        found.append(scope.show_operations(_told(run, scope, moved)[0], moved))
    if faults.on_gpu:
        text = f"{plural(faults.on_gpu, 'page fault')} of the GPU"
        first = faults.handling.start_ns[:_SHOWN].tolist(), faults.handling.end_ns[:_SHOWN].tolist()
        windows = tuple(zip(*first, strict=True))
        rows = tuple(faults.rows[:_SHOWN].tolist())
        found.append(Evidence(text, GPU_FAULTS, rows, len(faults.rows), windows))
    return tuple(found)
