"""Changes: declarative edits of what a program did, which replay prices.

A change says what would be different, never what that saves. It names calls by their rows in
`api_call` and device work by its places in `operations`, both in total order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from warpline.ops.arrays import I64


class Range(NamedTuple):
    """A value that is not known exactly; `low` is never above `high`.

    Attributes:
        low: The least that it may be.
        central: What it most likely is.
        high: The most that it may be.
    """

    low: float
    central: float
    high: float


_NONE = Range(0, 0, 0)
_ALL = Range(1, 1, 1)


@dataclass(frozen=True, eq=False)
class DropCalls:
    """These calls are not made.

    Attributes:
        calls: Shape (n,), int64.
        keeps_gap: Whether the host still spends the time before each of them.
    """

    calls: I64
    keeps_gap: bool = False


@dataclass(frozen=True, eq=False)
class DropOperations:
    """This work is not done, and the calls that launched nothing else are not made.

    Attributes:
        operations: Shape (n,), int64.
        remaining: How much of its time may have to stay, with its calls; 0 where all of it goes.
    """

    operations: I64
    remaining: Range = _NONE


@dataclass(frozen=True, eq=False)
class ScaleOperations:
    """This work takes another time.

    Attributes:
        operations: Shape (n,), int64.
        factor: New length by old length.
    """

    operations: I64
    factor: Range


@dataclass(frozen=True, eq=False)
class MakeAsync:
    """These copies no longer hold the thread that asks for them.

    Attributes:
        calls: Shape (n,), int64, the calls that copied.
        operations: Shape (m,), int64, the copies.
        bytes_per_s: How fast they are, None if as fast as they were.
        own_stream: Whether they run in a stream of their own, beside what does not use them: what
            comes next in their stream uses what was copied to the device.
    """

    calls: I64
    operations: I64
    bytes_per_s: Range | None = None
    own_stream: bool = True


@dataclass(frozen=True, eq=False)
class RemoveHostTime:
    """A thread does not spend this time.

    Attributes:
        thread: Row of the thread table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        remaining: How much of it may have to stay.
    """

    thread: int
    start_ns: I64
    end_ns: I64
    remaining: Range = _NONE


@dataclass(frozen=True, eq=False)
class LaunchAsGraph:
    """The work that these calls launched is launched as one CUDA graph for each group.

    Attributes:
        groups: Calls of one graph each, such as those of a step; shape (n,), int64.
    """

    groups: tuple[I64, ...]


@dataclass(frozen=True, eq=False)
class FuseOperations:
    """The work of each group is done by one operation.

    Attributes:
        groups: Work that becomes one operation each; shape (n,), int64.
        duration_ns: How long that one takes.
    """

    groups: tuple[I64, ...]
    duration_ns: Range


@dataclass(frozen=True, eq=False)
class OverlapCollectives:
    """Collectives run in a few buckets, beside the computation that makes their data.

    Attributes:
        operations: Shape (n,), int64, the collectives.
        buckets: How many there are in each step.
        step: Shape (n,), int64, equal for collectives of one step; None if all are of one.
        moving_ratio: The part of their time in which they move data, and do not wait for ranks
            that are not in the trace.
    """

    operations: I64
    buckets: int = 8
    step: I64 | None = None
    moving_ratio: Range = _ALL


@dataclass(frozen=True, eq=False)
class CatchUp:
    """A process is never the last one in a collective: nothing else waits for it.

    Attributes:
        process: Row of the process table.
        operations: Shape (n,), int64, collectives of others that waited for it.
        wait_ns: Shape (n,), int64, how long each did.
        remaining: How much of these waits may have to stay.
    """

    process: int
    operations: I64
    wait_ns: I64
    remaining: Range = _NONE


@dataclass(frozen=True, eq=False)
class RemoveProfilerCost:
    """Nothing is recorded.

    Attributes:
        call_ns: What recording cost the host for each recorded call.
    """

    call_ns: Range


Change: TypeAlias = (
    DropCalls
    | DropOperations
    | ScaleOperations
    | MakeAsync
    | RemoveHostTime
    | LaunchAsGraph
    | FuseOperations
    | OverlapCollectives
    | CatchUp
    | RemoveProfilerCost
)
