"""exposed-copies: pinned copies between host and device that no kernel overlaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.exposed import exposed_ns, running_ns, unit_of
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.estimate import exactly
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.result import Finding, rule
from warpline.result.changes import Change, MakeAsync
from warpline.schema.labels import MEMORY_KINDS
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ns, format_ratio, plural

NAME = "exposed-copies"
TITLE = "Copies between host and device are not overlapped with kernels"

_PINNED = next(kind for kind, label in MEMORY_KINDS.items() if label == "Pinned")
_UNKNOWN = -1
_DIRECTIONS = (TimePart.COPY_H2D, TimePart.COPY_D2H)
_LEAST_EXPOSED = 0.5  # of the copies' time: less remains where copies are made ahead
_LEAST_HIDDEN = 0.5  # of the exposed time: less is no fix
_ONE_WAY = 0.9  # of the copies' time: other data goes back and forth, and something waits for it


class _Exposed(NamedTuple):
    """Times in the analyzed steps or, without steps, in the whole recording.

    Attributes:
        ns: Shape (windows,), int64, the exposed time of the copies.
        copying_ns: Shape (windows, 2), int64, the time of the copies in each direction.
        whole_ns: The duration of all windows.
    """

    ns: I64
    copying_ns: I64
    whole_ns: int

    @property
    def share(self) -> float:
        """The exposed time as a share of the windows."""
        return int(self.ns.sum()) / self.whole_ns if self.whole_ns else 0.0

    @property
    def is_one_way(self) -> bool:
        """Whether nearly all copies go in the same direction."""
        each = self.copying_ns.sum(axis=0)
        return int(each.max()) >= _ONE_WAY * int(each.sum())

    @property
    def hidden_share(self) -> float:
        """The share of the windows that overlap saves at most.

        Copies in one direction take turns on the link.
        """
        busiest = int(self.copying_ns.max(axis=1).sum())
        return min(self.share, 1.0 - busiest / self.whole_ns) if self.whole_ns else 0.0


@rule(name=NAME, title=TITLE)
def exposed_copies(run: Run) -> list[Finding]:
    """Large copies between the device and pinned host memory while no kernel runs.

    What it finds: Copies of more than 64 KiB between pinned host memory and the device. At least
        half of their time, and at least 5% of the step, is not overlapped with kernels.
    Why it matters: The link to the host is far slower than GPU memory. A GPU that copies while no
        kernel runs is as good as idle.
    How it is found: By the recorded memory kind of each copy, and the time in which nothing else
        but copies runs on the device.
    What to do: Keep data on the GPU. Overlap what must be copied with kernels, on a separate
        stream.
    Limits: A recording does not show whether the data would fit into GPU memory, or whether it is
        the same every time. The saving of overlap is estimated if kernels can hide at least half
        of the exposed time, and if nearly all copies go in one direction: what goes back and forth
        may be needed in between. Copies of pageable memory belong to pageable-copy, page
        migrations to managed-memory.
    Source: CUDA C++ Best Practices Guide, sections about data transfer between host and device;
        PyTorch, CPU offload of FullyShardedDataParallel.
    """
    trace = run.trace
    if not trace.has("memcpy") or not trace.row_count("memcpy"):
        return []
    copies = _pinned(trace)
    if not copies.any():
        return []
    scope = step_scope(run)
    found = _exposed(run, copies)
    copying_ns = int(found.copying_ns.sum())
    if found.share < MEASURABLE_RATIO or int(found.ns.sum()) < _LEAST_EXPOSED * copying_ns:
        return []
    alone_ns, hidden_ns = found.share * scope.step_ns, found.hidden_share * scope.step_ns
    can_hide = hidden_ns >= _LEAST_HIDDEN * alone_ns
    changes = _changes(trace, copies) if can_hide and found.is_one_way else ()
    unit, chosen = unit_of(run), copies & scope.operations
    count = max(round(int(np.count_nonzero(chosen)) / unit.number), 1)
    many = plural(count, "pinned copy", "pinned copies")
    told = f"{many}{unit.each}, {format_bytes(_bytes_of(trace, chosen) / unit.number)}"
    limit = "" if can_hide else f" Overlap can hide at most {format_ns(hidden_ns)} of that."
    return [
        Finding(
            NAME,
            severity_of(found.share),
            f"Copies without concurrent kernels take {format_ratio(found.share)} of the time",
            f"The GPU copies to and from pinned host memory for {format_ns(alone_ns)}"
            f"{unit.each} ({format_ratio(found.share)}) while no kernel runs: {told}.{limit}",
            (scope.show_operations(told, copies),),
            "Keep data on the GPU: use CPU offload (of parameters, gradients, or optimizer states)"
            " only if memory requires it, and do not copy the same data again. Copy the rest ahead"
            " with non_blocking=True on a separate stream while kernels run.",
            "Profile again: `warpline stats -r overlap` shows less exposed-copy time.",
            fix_cuda="Keep data on the GPU from one iteration to the next. Copy the rest in parts"
            " with cudaMemcpyAsync on a second stream, while kernels work on other parts."
            " Order them with cudaStreamWaitEvent.",
            fix_in={
                "jax": "Keep arrays on the device from step to step (donate_argnums), and offload"
                " to the host only if memory requires it. Call jax.device_put on the next batch"
                " before the current step."
            },
            share=found.share,
            changes=changes,
            most_ns=exactly(hidden_ns),
            on_devices=scope.windows_on_devices(found.ns),
        )
    ]


def _pinned(trace: Trace) -> BoolArray:
    """Return which operations are large copies between pinned host memory and the device."""
    work = operations(trace)
    columns = trace.columns("memcpy", "bytes", "src_memory", "dst_memory")
    source, target = (columns[key].filled(_UNKNOWN) for key in ("src_memory", "dst_memory"))
    is_pinned = (source == _PINNED) != (target == _PINNED)
    is_pinned &= columns["bytes"].values > SMALL_COPY_BYTES
    chosen = np.zeros(len(work), np.bool_)
    places = np.flatnonzero(work.table == DEVICE_TABLES.index("memcpy"))
    chosen[places] = is_pinned[work.row[places]]
    return chosen & np.isin(operation_categories(trace), _DIRECTIONS)


def _exposed(run: Run, copies: BoolArray) -> _Exposed:
    """Return the times of some copies, by window."""
    windows, category = step_partition(run).windows, operation_categories(run.trace)
    each = [running_ns(run, copies & (category == direction)) for direction in _DIRECTIONS]
    return _Exposed(
        exposed_ns(run, copies),
        np.column_stack(each),
        int((windows.end_ns - windows.start_ns).sum()),
    )


def _bytes_of(trace: Trace, chosen: BoolArray) -> int:
    size = trace.columns("memcpy", "bytes")["bytes"].values
    return int(size[operations(trace).row[chosen]].sum())


def _changes(trace: Trace, copies: BoolArray) -> tuple[Change, ...]:
    places = np.flatnonzero(copies)
    calls: I64 = operations(trace).call[places]
    return (MakeAsync(distinct_values(calls[calls >= 0]), places),)
