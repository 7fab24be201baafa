"""Names of memory locations, and the operators open at each allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import ALLOCATORS, Pool, allocations
from warpline.derived.memory.operators import outermost_operators_of_allocations
from warpline.derived.operators.calls import operator_calls
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Trace

HOST = "Host"
ON_GPU = frozenset({"Device", "Device Static", "Array"})
"""Kinds of memory that are parts of a GPU's memory."""


class Operators(NamedTuple):
    """The outermost operator around each event of `allocations`.

    Attributes:
        name: Shape (events,), int64, positions in `names`; 0 if there is no operator.
        found: Shape (events,), bool.
        names: The distinct names, at least one.
    """

    name: I64
    found: BoolArray
    names: tuple[str, ...]


@derived
def operators_of_allocations(trace: Trace) -> Operators:
    """Return the outermost operators around allocations; nothing is found without operators."""
    n = len(allocations(trace))
    if not trace.has("op") or not trace.row_count("op"):
        return Operators(np.zeros(n, np.int64), np.zeros(n, np.bool_), ("",))
    calls, around = operator_calls(trace), outermost_operators_of_allocations(trace)
    name = np.zeros(n, np.int64)
    name[around.found] = calls.name[around.row[around.found]]
    return Operators(name, around.found, calls.names or ("",))


def place_names(trace: Trace, pools: Sequence[Pool]) -> list[str]:
    """Return the location of each pool, such as ``GPU 0`` or ``Host``."""
    if not trace.has("device"):
        return [HOST for _ in pools]
    numbers = trace.columns("device", "gpu_index")["gpu_index"].values
    return [HOST if pool.device < 0 else f"GPU {int(numbers[pool.device])}" for pool in pools]


def pids_of(trace: Trace, pools: Sequence[Pool]) -> I64:
    """Return the process id (pid) of each pool."""
    pids = trace.columns("process", "pid")["pid"].values
    return pids[np.array([pool.process for pool in pools], np.int64)]


@derived
def counting_notes(trace: Trace) -> tuple[str, ...]:
    """Return a note on bytes in use that were summed instead of recorded, if there are any."""
    events = allocations(trace)
    counted = {
        events.pools[number] for number in distinct_values(events.pool[events.is_counted]).tolist()
    }
    places = place_names(trace, list(events.pools))
    named = sorted(
        {
            f"{places[events.pools.index(pool)]} ({ALLOCATORS[pool.allocator].lower()})"
            for pool in counted
        }
    )
    if not named:
        return ()
    what = ", ".join(named)
    return (f"bytes in use of {what} are summed from the start of the recording",)


def device_bytes(trace: Trace, pool: Pool) -> int | None:
    """Return the size of the memory of the GPU that a pool is on; None for the host, or unknown."""
    if pool.memory not in ON_GPU or pool.device < 0:
        return None
    known: int | None = trace.columns("device", "memory_bytes")["memory_bytes"].to_list()[
        pool.device
    ]
    return known or None
