"""The module and the phase of training in which a CPU thread was at any time.

They follow from the innermost of these on the thread: a module's call (forward, or backward if a
backward function repeats it, as checkpoints do), a backward function (backward, in the module that
made it), an optimizer's step or zero_grad (optimizer, no module). On autograd's own threads, time
between backward functions belongs to the one before it: hooks, and gradients that are accumulated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.compiled.captured import captured_nodes
from warpline.derived.modules.calls import UNKNOWN, called_modules, module_calls
from warpline.derived.modules.nodes import backward_nodes
from warpline.derived.ranges.optimizer_steps import optimizer_ranges
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I32, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.ops.tree import enclosing, nest
from warpline.trace import Trace
from warpline.vocabulary import Vocabulary

_NO_THREAD = -1


class Phase(Vocabulary):
    """A phase of a training step."""

    FORWARD = "forward", "module calls outside the backward pass"
    BACKWARD = "backward", "autograd's functions, and forward work repeated for them"
    OPTIMIZER = "optimizer", "optimizer steps, gradients set to zero"
    OTHER = "other", "everything else: losses outside modules, copies of batches, gradient clipping"


class Places(NamedTuple):
    """Where threads were at some times.

    Attributes:
        module: Shape (n,), int32, places in `called_modules`; -1 outside modules.
        phase: Shape (n,), int8, members of `Phase`.
        is_between: Shape (n,), bool, whether it was between backward functions.
    """

    module: I32
    phase: I8
    is_between: BoolArray


class _Scopes(NamedTuple):
    """Intervals of CPU threads with a module and a phase, and how they are nested."""

    start_ns: I64
    end_ns: I64
    thread: I64
    module: I32
    phase: I8
    is_outermost: BoolArray


def places_at(trace: Trace, time_ns: I64, thread: I64) -> Places:
    """Return where threads were.

    Args:
        trace: The trace.
        time_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table; -1 for none.
    """
    scopes = _scopes(trace)
    count = len(time_ns)
    found = Places(
        np.full(count, UNKNOWN, np.int32),
        np.full(count, int(Phase.OTHER), np.int8),
        np.zeros(count, np.bool_),
    )
    if not len(scopes.start_ns):
        return found
    around = enclosing(
        time_ns, scopes.start_ns, scopes.end_ns, point_group=thread, group=scopes.thread
    )
    inside = np.flatnonzero(around.found)
    found.module[inside] = scopes.module[around.row[inside]]
    found.phase[inside] = scopes.phase[around.row[inside]]
    _place_between(trace, time_ns, thread, np.flatnonzero(~around.found), found)
    return found


@derived
def places_of_operations(trace: Trace) -> Places:
    """Return where the launch call of each GPU operation was, shape (operations,).

    Operations of CUDA graphs are where their nodes were captured, if that was recorded.
    """
    work, node = operations(trace), captured_nodes(trace)
    found = places_at(trace, np.zeros(len(work), np.int64), np.full(len(work), _NO_THREAD))
    if trace.has("api_call"):
        known = np.flatnonzero(work.call >= 0)
        _fill(trace, found, known, work.call[known], "api_call", "start_ns")
    if node.found.any():
        known = np.flatnonzero(node.found)
        _fill(trace, found, known, node.row[known], "graph_node", "time_ns")
    return found


def _fill(trace: Trace, found: Places, at: I64, rows: I64, table: str, time: str) -> None:
    """Fill in the places of operations by rows of a table, unless nothing is known of these."""
    columns = trace.columns(table, time, "thread_id")
    of_rows = places_at(trace, columns[time].values, columns["thread_id"].values.astype(np.int64))
    is_known = of_rows.phase[rows] != Phase.OTHER
    at, rows = at[is_known], rows[is_known]
    found.module[at] = of_rows.module[rows]
    found.phase[at] = of_rows.phase[rows]
    found.is_between[at] = of_rows.is_between[rows]


def _place_between(trace: Trace, time_ns: I64, thread: I64, rest: I64, found: Places) -> None:
    """Fill in the places of times between backward functions on autograd's threads."""
    scopes = _scopes(trace)
    for worker in _autograd_threads(trace).tolist():
        own = np.flatnonzero((scopes.thread == worker) & (scopes.phase == Phase.BACKWARD))
        own = own[scopes.is_outermost[own]]
        own = own[np.argsort(scopes.start_ns[own], kind="stable")]
        at = rest[thread[rest] == worker]
        before = np.searchsorted(scopes.start_ns[own], time_ns[at], side="right") - 1
        scope = own[np.maximum(before, 0)]
        found.module[at] = scopes.module[scope]
        found.phase[at] = int(Phase.BACKWARD)
        found.is_between[at] = True


class Spans(NamedTuple):
    """Outermost intervals of CPU threads with a phase.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        phase: Shape (n,), int8, members of `Phase`.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    phase: I8


@derived
def spans_of_phases(trace: Trace) -> Spans:
    """Return the outermost calls of modules, functions of autograd, and ranges of optimizers."""
    scopes = _scopes(trace)
    outer = np.flatnonzero(scopes.is_outermost)
    return Spans(
        scopes.start_ns[outer], scopes.end_ns[outer], scopes.thread[outer], scopes.phase[outer]
    )


@derived
def has_places(trace: Trace) -> bool:
    """Return whether modules, backward functions or optimizers were recorded."""
    return len(_scopes(trace).start_ns) > 0


@derived
def _autograd_threads(trace: Trace) -> I64:
    """Return the threads on which all modules' calls are inside backward functions."""
    scopes = _scopes(trace)
    backward = distinct_values(scopes.thread[scopes.phase == Phase.BACKWARD])
    outside = scopes.is_outermost & (scopes.phase == Phase.FORWARD)
    return backward[~np.isin(backward, scopes.thread[outside])]


@derived
def _scopes(trace: Trace) -> _Scopes:
    calls, nodes, steps = module_calls(trace), backward_nodes(trace), optimizer_ranges(trace)
    start = np.concatenate((calls.start_ns, nodes.start_ns, steps.start_ns))
    end = np.concatenate((calls.end_ns, nodes.end_ns, steps.end_ns))
    thread = np.concatenate((calls.thread, nodes.thread, steps.thread))
    none = np.full(len(steps.start_ns), UNKNOWN, np.int32)
    module = np.concatenate((called_modules(trace).of_call, nodes.module, none))
    kinds = np.array(
        [int(kind) for kind in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)], np.int8
    )
    phase = np.repeat(kinds, [len(part.start_ns) for part in (calls, nodes, steps)])
    nesting = nest(start, end, thread)
    repeated, unknown = phase == Phase.FORWARD, (phase == Phase.BACKWARD) & (module < 0)
    for rows in by_group(nesting.depth)[1:]:
        up = nesting.parent[rows]
        again = rows[repeated[rows] & (phase[up] == Phase.BACKWARD)]
        phase[again] = int(Phase.BACKWARD)
        inner = unknown[rows] & (phase[up] == Phase.BACKWARD)
        module[rows[inner]] = module[up[inner]]
    return _Scopes(start, end, thread, module, phase, ~nesting.has_parent)
