"""Changes: declarative edits of a program's execution, whose savings a simulation estimates.

A change describes the difference, never the saving. It refers to calls by their rows in `api_call`
and to GPU operations by their places in `operations`, both in total order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from warpline.estimate import Estimate
from warpline.ops.arrays import I64

_NONE = Estimate(0, 0, 0)
_ALL = Estimate(1, 1, 1)


@dataclass(frozen=True, eq=False)
class DropCalls:
    """These calls are not made.

    Attributes:
        calls: Shape (n,), int64.
        keeps_gap: Whether the CPU still spends the time before each call.
    """

    calls: I64
    keeps_gap: bool = False


@dataclass(frozen=True, eq=False)
class DropOperations:
    """These operations are not executed, and calls that launched nothing else are not made.

    Attributes:
        operations: Shape (n,), int64.
        remaining: Share of their time that may stay, with the calls; 0 where all of it goes.
        keeps_gap: Whether the CPU still spends the time before each call, as where a library
            launches them for an operator that stays.
    """

    operations: I64
    remaining: Estimate = _NONE
    keeps_gap: bool = False


@dataclass(frozen=True, eq=False)
class ScaleOperations:
    """The durations of these operations change.

    Attributes:
        operations: Shape (n,), int64.
        factor: New duration divided by old duration.
    """

    operations: I64
    factor: Estimate


@dataclass(frozen=True, eq=False)
class SetDurations:
    """These operations take other times, each its own; those that were dropped before take none.

    Attributes:
        operations: Shape (n,), int64, each at most once.
        low_ns: Shape (n,), int64, lower bounds of their durations.
        central_ns: Shape (n,), int64, their most likely durations.
        high_ns: Shape (n,), int64, upper bounds.
    """

    operations: I64
    low_ns: I64
    central_ns: I64
    high_ns: I64


@dataclass(frozen=True, eq=False)
class MakeAsync:
    """These copies no longer block the calling thread.

    Attributes:
        calls: Shape (n,), int64, the calls that copied.
        operations: Shape (m,), int64, the copies.
        bytes_per_s: Their new speed; None if unchanged.
        own_stream: Whether they run on a separate stream, overlapped with work that does not need
            them. The next operation of their former stream needs data copied to the device.
    """

    calls: I64
    operations: I64
    bytes_per_s: Estimate | None = None
    own_stream: bool = True


@dataclass(frozen=True, eq=False)
class RemoveHostTime:
    """A thread does not spend this time.

    Attributes:
        thread: Row of the thread table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        remaining: Share of it that may stay.
    """

    thread: int
    start_ns: I64
    end_ns: I64
    remaining: Estimate = _NONE


@dataclass(frozen=True, eq=False)
class LaunchAsGraph:
    """The operations that these calls launched are launched as one CUDA graph per group.

    Attributes:
        groups: The calls of each graph, such as those of a step; shape (n,), int64.
    """

    groups: tuple[I64, ...]


@dataclass(frozen=True, eq=False)
class FuseOperations:
    """Each group of operations is fused into one operation.

    Attributes:
        groups: The operations of each group; shape (n,), int64.
        duration_ns: Duration of a fused operation.
    """

    groups: tuple[I64, ...]
    duration_ns: Estimate


@dataclass(frozen=True, eq=False)
class OverlapCollectives:
    """Collectives run in a few buckets, overlapped with the compute that produces their data.

    Attributes:
        operations: Shape (n,), int64, the collectives.
        buckets: Buckets per step.
        step: Shape (n,), int64, equal for collectives of one step; None if all are in one step.
        moving_ratio: Share of their time that moves data, without waits for ranks that are not in
            the trace.
    """

    operations: I64
    buckets: int = 8
    step: I64 | None = None
    moving_ratio: Estimate = _ALL


@dataclass(frozen=True, eq=False)
class CatchUp:
    """A process is never the last to arrive in a collective, so no other process waits for it.

    Attributes:
        process: Row of the process table.
        operations: Shape (n,), int64, collectives of other processes that waited for it.
        wait_ns: Shape (n,), int64, how long each waited.
        remaining: Share of these waits that may stay.
    """

    process: int
    operations: I64
    wait_ns: I64
    remaining: Estimate = _NONE


@dataclass(frozen=True, eq=False)
class RemoveProfilerCost:
    """The program runs without a profiler: neither calls nor the nodes of CUDA graphs are recorded.

    Attributes:
        call_ns: Profiling overhead on the CPU per recorded call.
        operator_ns: Likewise per recorded operator of a framework.
    """

    call_ns: Estimate
    operator_ns: Estimate = _NONE


Change: TypeAlias = (
    DropCalls
    | DropOperations
    | ScaleOperations
    | SetDurations
    | MakeAsync
    | RemoveHostTime
    | LaunchAsGraph
    | FuseOperations
    | OverlapCollectives
    | CatchUp
    | RemoveProfilerCost
)
