"""Breakdown of windows of GPU time into integer parts that sum exactly to each window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.kernels.categories import operation_origins
from warpline.derived.kernels.rules import Origin
from warpline.derived.steps.times import Windows, measure_windows
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.group import factorize_rows
from warpline.ops.tiling import Cuts, Grouped, cut, sum_cuts
from warpline.trace import Run, Trace

_SEGMENTS_PER_BLOCK = 2**18  # their pieces take a few MB


class RankWindows(NamedTuple):
    """The windows of a rank: one process on one device.

    Attributes:
        process: Row of the process table, -1 if the windows belong to no process.
        device: Row of the device table.
        windows: Shape (k,), int64, indices of windows.
    """

    process: int
    device: int
    windows: I64

    def owns(self, process: I64, device: I64) -> BoolArray:
        """Return which pairs of a process and a device are this rank.

        Without a process, it owns all work on its device.
        """
        is_own: BoolArray = device == self.device
        return is_own & (process == self.process) if self.process >= 0 else is_own


@dataclass(frozen=True)
class Partition:
    """The parts of each window.

    Attributes:
        windows: The windows.
        ns: Shape (windows, `TimePart`), int64. A row sums to the length of its window.
    """

    windows: Windows
    ns: I64

    @cached_property
    def ranks(self) -> tuple[RankWindows, ...]:
        """The windows by process and device, ascending."""
        return ranks_of(self.windows)

    def total(self, rank: RankWindows) -> I64:
        """Return the sum over the windows of a rank, shape (`TimePart`,)."""
        sums: I64 = self.ns[rank.windows].sum(axis=0)
        return sums


def ranks_of(windows: Windows) -> tuple[RankWindows, ...]:
    """Return the windows by process and device, ascending."""
    if not len(windows.device):
        return ()
    groups = factorize_rows(windows.process, windows.device)
    return tuple(
        RankWindows(
            int(windows.process[first]),
            int(windows.device[first]),
            np.flatnonzero(groups.codes == code),
        )
        for code, first in enumerate(groups.first.tolist())
    )


def partition(trace: Trace, windows: Windows) -> Partition:
    """Return the parts of each window.

    Args:
        trace: The trace.
        windows: They may overlap; each is divided separately. Time without a segment is
            "unknown".
    """
    count = len(windows.device)
    part = device_segments(trace).part
    ns = sums_in(trace, windows, part, len(TimePart), slot=np.arange(count), n_slots=count)
    ns[:, TimePart.UNKNOWN] += windows.end_ns - windows.start_ns - ns.sum(axis=1)
    return Partition(windows, ns)


@derived
def step_partition(run: Run) -> Partition:
    """Return `partition` over `measure_windows`: the included steps, or the whole recording."""
    return partition(run.trace, measure_windows(run))


def sums_in(
    trace: Trace,
    windows: Windows,
    code: Integers,
    n_codes: int,
    *,
    slot: Integers | None = None,
    n_slots: int = 1,
) -> I64:
    """Return the time of segments in windows, shape (n_slots, n_codes), int64.

    Args:
        trace: The trace.
        windows: They may overlap; each counts separately.
        code: Shape (segments,), in ``[0, n_codes)``, or negative to leave a segment out.
        n_codes: Number of codes.
        slot: Shape (windows,), in ``[0, n_slots)``; None for 0.
        n_slots: Number of slots.
    """
    segments = device_segments(trace)
    return sum_cuts(
        Grouped(windows.start_ns, windows.end_ns, windows.device),
        Grouped(segments.start_ns, segments.end_ns, segments.device),
        code,
        n_codes,
        slot=slot,
        n_slots=n_slots,
    )


def measured_segments(run: Run) -> Iterator[Cuts]:
    """Yield `window_segments` of `measure_windows`, in its order, some windows at a time.

    All pieces together would take more memory than the segments. For sums, see `sums_in`.
    """
    return _blocks(run.trace, measure_windows(run))


def measured_parts(run: Run, *parts: TimePart) -> Cuts:
    """Return `window_segments` of `measure_windows`, only those of the given parts."""
    part = device_segments(run.trace).part
    chosen = [
        [column[rows] for column in pieces]
        for pieces in measured_segments(run)
        for rows in (np.flatnonzero(np.isin(part[pieces.row], parts)),)
    ]
    nothing = [np.zeros(0, np.int64)] * len(Cuts._fields)
    return Cuts(*(np.concatenate(columns) for columns in zip(nothing, *chosen, strict=True)))


def _blocks(trace: Trace, windows: Windows) -> Iterator[Cuts]:
    segments, count = device_segments(trace), len(windows.device)
    size = max(count * _SEGMENTS_PER_BLOCK // max(len(segments), 1), 1)
    others = Grouped(segments.start_ns, segments.end_ns, segments.device)
    for low in range(0, count, size):
        rows = slice(low, low + size)
        spans = Grouped(windows.start_ns[rows], windows.end_ns[rows], windows.device[rows])
        pieces = cut(spans, others)
        yield pieces._replace(span=pieces.span + low)


def busy_by_origin(trace: Trace, windows: Windows) -> I64:
    """Return the busy time of each window by part and library.

    Shape (windows, `TimePart`, `Origin`), int64: the busy parts of `partition`, divided further.
    Idle parts are 0.
    """
    segments, pieces = device_segments(trace), window_segments(trace, windows)
    busy = np.flatnonzero(is_busy(segments.part[pieces.row]))
    pieces = Cuts(*(column[busy] for column in pieces))
    origin = operation_origins(trace)[segments.operation[pieces.row]]
    code = segments.part[pieces.row].astype(np.int64) * len(Origin) + origin
    ns = summed(windows, pieces, code, len(TimePart) * len(Origin))
    return ns.reshape(len(ns), len(TimePart), len(Origin))


def window_segments(trace: Trace, windows: Windows) -> Cuts:
    """Return the pieces of `device_segments` in each window; `row` is the segment."""
    segments = device_segments(trace)
    return cut(
        Grouped(windows.start_ns, windows.end_ns, windows.device),
        Grouped(segments.start_ns, segments.end_ns, segments.device),
    )


def summed(windows: Windows, pieces: Cuts, code: Integers, n_codes: int) -> I64:
    """Return the time of each window by a code of its pieces, shape (windows, n_codes), int64.

    Args:
        windows: The windows that the pieces were cut from.
        pieces: Pieces of windows.
        code: Shape (pieces,), in ``[0, n_codes)``.
        n_codes: The number of codes.
    """
    ns = np.zeros((len(windows.device), n_codes), np.int64)
    np.add.at(ns, (pieces.span, code), pieces.end_ns - pieces.start_ns)
    return ns


class RankOwners(NamedTuple):
    """Process and GPU of each rank, as shown to users.

    Attributes:
        pid: Shape (ranks,), int64, the process id.
        has_pid: Shape (ranks,), bool, False if several processes share the device's windows.
        gpu_index: Shape (ranks,), int64, the producer's index of the GPU.
    """

    pid: I64
    has_pid: BoolArray
    gpu_index: I64


def rank_owners(trace: Trace, ranks: Sequence[RankWindows]) -> RankOwners:
    """Return the process and the device of each rank.

    Windows without a process belong to the only process that used the device, if there is only
    one.
    """
    owners = [owner_of(trace, rank.process, rank.device) for rank in ranks]
    return RankOwners(
        np.array([owner.pid or 0 for owner in owners], np.int64),
        np.array([owner.pid is not None for owner in owners], np.bool_),
        np.array([owner.gpu_index for owner in owners], np.int64),
    )
