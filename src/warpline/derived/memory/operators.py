"""Memory allocated and freed by operator calls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import FRAMEWORK, Allocations, allocations
from warpline.derived.operators.calls import OPERATOR, OperatorCalls, operator_calls
from warpline.ops.arrays import I64
from warpline.ops.join import Lookup
from warpline.trace import Trace

_NO_THREAD = -1


class MemoryOfCalls(NamedTuple):
    """Bytes allocated minus bytes freed by each call, excluding nested calls.

    Attributes:
        host_bytes: Shape (calls,), int64.
        device_bytes: Shape (calls,), int64.
    """

    host_bytes: I64
    device_bytes: I64


@derived
def memory_of_calls(trace: Trace) -> MemoryOfCalls:
    """Return the bytes of each call of `operator_calls`."""
    calls, events = operator_calls(trace), allocations(trace)
    inside = calls_of_allocations(trace)
    on_device = np.array([pool.memory == "Device" for pool in events.pools], np.bool_)
    sums = []
    for where in (False, True):
        chosen = np.flatnonzero(inside.found & (on_device[events.pool] == where))
        own = np.zeros(len(calls), np.int64)
        np.add.at(own, inside.row[chosen], events.change_bytes[chosen])
        sums.append(own)
    return MemoryOfCalls(*sums)


@derived
def calls_of_allocations(trace: Trace) -> Lookup:
    """Return the innermost call open on the thread of each event of `allocations`.

    Driver events have none, because their thread is not recorded.
    """
    calls, events = operator_calls(trace), allocations(trace)
    return _around(trace, calls, events, np.arange(len(calls)))


@derived
def outermost_operators_of_allocations(trace: Trace) -> Lookup:
    """Return the outermost operator open on the thread of each event of `allocations`."""
    calls, events = operator_calls(trace), allocations(trace)
    operators = np.flatnonzero(calls.kind == OPERATOR)
    outermost = operators[~_is_inside_operator(calls)[operators]]
    return _around(trace, calls, events, outermost)


def _is_inside_operator(calls: OperatorCalls) -> np.typing.NDArray[np.bool_]:
    is_operator = (calls.kind == OPERATOR).astype(np.int64)
    inside = np.zeros(len(calls), np.bool_)
    order = np.argsort(calls.nesting.depth, kind="stable")
    bounds = np.searchsorted(
        calls.nesting.depth[order], np.arange(int(calls.nesting.depth.max(initial=0)) + 2)
    )
    for level in range(1, len(bounds) - 1):
        rows = order[bounds[level] : bounds[level + 1]]
        around = calls.nesting.parent[rows]
        inside[rows] = inside[around] | (is_operator[around] > 0)
    return inside


def _around(trace: Trace, calls: OperatorCalls, events: Allocations, chosen: I64) -> Lookup:
    row, found = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
    own = np.flatnonzero(events.allocator == FRAMEWORK)
    if len(own) and len(chosen):
        thread = trace.columns("allocator_event", "thread_id")["thread_id"].filled(_NO_THREAD)
        inside = calls.among(chosen, events.time_ns[own], thread[events.row[own]].astype(np.int64))
        row[own], found[own] = inside
    return Lookup(row, found)
