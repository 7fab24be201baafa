"""Waits of ranks for each other in collectives, and transfer times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.overlaps import OverlapKind, overlaps
from warpline.derived.collectives.matches import CollectiveMatches, collective_matches
from warpline.derived.steps.times import NO_STEP, Windows, measure_windows
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.trace import Run, Trace


@dataclass(frozen=True)
class CollectiveWaits:
    """The parts of collectives, one per collective and rank, sorted by collective, then rank.

    Attributes:
        matches: The collective and rank of each part.
        collective: Shape (n,), int64, numbers of the analyzed collectives: 0, 0, 1, 1...
        place: Shape (n,), int64, the part, a place in the matches.
        rank: Shape (n,), int64, its rank.
        operation: Shape (n,), int64, its kernel, a place in `operations`.
        arrival_ns: Shape (n,), int64, its start, on the clock of the collective's first rank.
        wait_ns: Shape (n,), int64, how long it waited for the last rank to start.
        transfer_ns: Shape (n,), int64, the rest of the kernel; both add up to its duration.
        exposed_ns: Shape (n,), int64, the part of the wait in which the GPU computed nothing.
        last: Shape (collectives,), int64, the part that started last, a place in these arrays.
        late_ns: Shape (collectives,), int64, its delay after the second-to-last part.
        error_ns: Shape (collectives,), int64, the clock error: shorter delays are not significant.
    """

    matches: CollectiveMatches
    collective: I64
    place: I64
    rank: I64
    operation: I64
    arrival_ns: I64
    wait_ns: I64
    transfer_ns: I64
    exposed_ns: I64
    last: I64
    late_ns: I64
    error_ns: I64

    @property
    def count(self) -> int:
        """Number of analyzed collectives."""
        return len(self.last)

    @property
    def is_late(self) -> BoolArray:
        """Shape (collectives,), whether one rank arrived last by more than the clock error."""
        return self.late_ns > self.error_ns


@derived
def collective_waits(run: Run) -> CollectiveWaits:
    """Return the waits in the collectives of the included steps, or of the whole trace.

    A rank arrives in a collective when its kernel starts. Until the last rank arrives, the others
    wait inside their kernels. The rest of a kernel is the transfer.
    """
    trace = run.trace
    matches, work = collective_matches(trace), operations(trace)
    chosen = _counted(trace, matches, measure_windows(run))
    number = matches.collective[chosen]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    collective = np.cumsum(np.diff(number, prepend=-1) != 0) - 1
    operation = matches.operation[chosen]
    start = work.start_ns[operation]
    duration = work.end_ns[operation] - start
    arrival = start - matches.lead_ns[chosen]
    last, late = _last(collective, arrival, first)
    wait = np.clip(arrival[last][collective] - arrival, 0, duration)
    return CollectiveWaits(
        matches=matches,
        collective=collective,
        place=chosen,
        rank=matches.rank[chosen],
        operation=operation,
        arrival_ns=arrival,
        wait_ns=wait,
        transfer_ns=duration - wait,
        exposed_ns=_exposed(trace, operation, wait),
        last=last,
        late_ns=late,
        error_ns=matches.error_ns[chosen][first],
    )


def _last(collective: I64, arrival: I64, first: I64) -> tuple[I64, I64]:
    """Return the part of each collective that started last, and its delay after the next one."""
    order = np.lexsort((arrival, collective))
    ends = np.append(first[1:], len(collective))[: len(first)]
    return order[ends - 1], arrival[order[ends - 1]] - arrival[order[ends - 2]]


def _exposed(trace: Trace, operation: I64, wait_ns: I64) -> I64:
    """Return how long the GPU computed nothing while each kernel waited."""
    work = operations(trace)
    start, no_step = work.start_ns[operation], np.full(len(operation), NO_STEP, np.int64)
    waiting = Windows(
        device=work.device[operation],
        start_ns=start,
        end_ns=start + wait_ns,
        step=no_step,
        process=no_step,
    )
    return overlaps(trace, waiting).ns[:, OverlapKind.EXPOSED_COMMUNICATION]


def _counted(trace: Trace, matches: CollectiveMatches, windows: Windows) -> I64:
    """Return the parts of collectives whose kernels all started in windows of their processes."""
    everything = np.arange(len(matches.collective))
    if not (windows.step >= 0).any():
        return everything
    work = operations(trace)
    device_count = int(max(windows.device.max(), work.device.max(initial=0))) + 1
    inside = enclosing(
        work.start_ns[matches.operation],
        windows.start_ns,
        windows.end_ns,
        point_group=work.process[matches.operation] * device_count + work.device[matches.operation],
        group=windows.process * device_count + windows.device,
    ).found
    outside = np.zeros(matches.count, np.bool_)
    outside[matches.collective[~inside]] = True
    return everything[~outside[matches.collective]]
