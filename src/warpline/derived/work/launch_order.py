"""Launch times and launching threads of GPU operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray, Integers, is_repeated, repeated
from warpline.trace import Trace

NO_THREAD = -1


class LaunchOrder(NamedTuple):
    """The launch of each GPU operation, in the order of `operations`.

    Attributes:
        time_ns: Shape (n,), int64, start of the launch call; if the call is unknown, start of the
            operation on the GPU.
        thread: Shape (n,), int64, the launching thread, NO_THREAD if the call is unknown.
        is_known: Shape (n,), bool, whether the call is known.
        order: Shape (n,), int64, places in `operations` by process, launch and start.
    """

    time_ns: I64
    thread: I64
    is_known: BoolArray
    order: I64


@derived
def launch_order(trace: Trace) -> LaunchOrder:
    """Return the launch time and launching thread of each GPU operation."""
    work = operations(trace)
    is_known = work.call >= 0
    time_ns, thread = work.start_ns, repeated(np.array([NO_THREAD]), len(work))
    if is_known.any():
        calls = trace.columns("api_call", "start_ns", "thread_id")
        time_ns = _where_known(is_known, calls["start_ns"].values, work.call, time_ns)
        thread = _where_known(is_known, calls["thread_id"].values, work.call, thread)
    keys = (work.start_ns, time_ns)
    order = np.lexsort(keys if is_repeated(work.process) else (*keys, work.process))
    return LaunchOrder(time_ns, thread, is_known, order)


def _where_known(is_known: BoolArray, of_calls: Integers, call: I64, otherwise: I64) -> I64:
    """Return the value of each operation's call, and another one where it is unknown."""
    if is_repeated(of_calls) and is_known.all():
        return repeated(of_calls[:1].astype(np.int64), len(call))
    values = otherwise.copy()
    values[is_known] = of_calls[call[is_known]]
    return values
