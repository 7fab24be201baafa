"""Functions that autograd ran in the backward pass, and the modules whose forward calls made them.

A function has the sequence number that its forward thread counted when it was created. They are
recorded as operators (PyTorch's profiler) or as ranges, ``AddmmBackward0, seq = 955``. The module
is the one in which the forward operator of that number began, if operators were recorded, otherwise
the innermost call during which the thread's counter reached the number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.modules.calls import UNKNOWN, ModuleCalls, called_modules, module_calls
from warpline.derived.operators.calls import operator_rows
from warpline.derived.operators.labels import forward_operators
from warpline.derived.ranges.autograd import backward_ranges, forward_ranges
from warpline.ops.arrays import I32, I64
from warpline.ops.group import distinct_values
from warpline.ops.tree import enclosing
from warpline.trace import Trace


class Nodes(NamedTuple):
    """Backward functions.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before the start.
        thread: Shape (n,), int64, rows of the thread table.
        module: Shape (n,), int32, the one of `called_modules` that made them, -1 for
            none.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    module: I32


class _Numbered(NamedTuple):
    """Backward functions of one table, and the start and thread of what made them."""

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    number: I64
    made_ns: I64
    made_thread: I64  # -1 if unknown


@derived
def backward_nodes(trace: Trace) -> Nodes:
    """Return the backward functions with a sequence number, of operators and of ranges."""
    parts = [part for part in (_operators(trace), _ranges(trace)) if part is not None]
    if not parts:
        none = np.zeros(0, np.int64)
        return Nodes(none, none, none, none.astype(np.int32))
    both = _Numbered(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return Nodes(both.start_ns, both.end_ns, both.thread, _made_by(trace, both))


def _operators(trace: Trace) -> _Numbered | None:
    if not trace.has("op") or not trace.row_count("op"):
        return None
    rows = operator_rows(trace)
    columns = trace.columns("op", "sequence", "forward_thread")
    is_node = columns["sequence"].is_valid() & (columns["forward_thread"].filled(0) != 0)
    rows = rows[is_node[rows]]
    number = columns["sequence"].values[rows].astype(np.int64)
    links = forward_operators(trace)
    return _numbered(trace, "op", rows, number, links.backward, links.forward)


def _ranges(trace: Trace) -> _Numbered | None:
    if not trace.has("range") or not trace.row_count("range"):
        return None
    found, links = backward_ranges(trace), forward_ranges(trace)
    return _numbered(trace, "range", found.row, found.number, links.backward, links.forward)


def _numbered(
    trace: Trace, table: str, rows: I64, number: I64, linked: I64, makers: I64
) -> _Numbered:
    names = ("start_ns", "end_ns", "thread_id", "process_id")
    start, end, thread, process = (
        column.values.astype(np.int64) for column in trace.columns(table, *names).values()
    )
    maker = np.full(len(start), UNKNOWN)
    maker[linked] = makers
    made = maker[rows]
    return _Numbered(
        start_ns=start[rows],
        end_ns=np.maximum(start, end)[rows],
        thread=thread[rows],
        process=process[rows],
        number=number,
        made_ns=start[made] if len(start) else made,
        made_thread=np.where(made >= 0, thread[made], UNKNOWN) if len(start) else made,
    )


def _made_by(trace: Trace, nodes: _Numbered) -> I32:
    """Return the module that made each function, -1 for none."""
    calls, module = module_calls(trace), called_modules(trace).of_call
    made = np.full(len(nodes.start_ns), UNKNOWN, np.int32)
    if not len(calls.row):
        return made
    around = enclosing(
        nodes.made_ns,
        calls.start_ns,
        calls.end_ns,
        point_group=nodes.made_thread,
        group=calls.thread,
    )
    made[around.found] = module[around.row[around.found]]
    rest = np.flatnonzero(nodes.made_thread < 0)
    if len(rest):
        call = _counting_calls(calls, _Numbered(*(column[rest] for column in nodes)))
        made[rest] = np.where(call >= 0, module[call], UNKNOWN)
    return made


def _counting_calls(calls: ModuleCalls, nodes: _Numbered) -> I64:
    """Return the innermost call in which the counter of a thread reached each number, -1 for none.

    Each thread counts by itself. Of the calls on several threads, the last to begin before the
    function ran counts: a checkpoint's forward pass is repeated, and counted again, on the thread
    of the backward pass.
    """
    latest = np.full(len(nodes.number), UNKNOWN)
    counted = np.flatnonzero((calls.first_number >= 0) & (calls.end_number >= calls.first_number))
    for thread in distinct_values(calls.thread[counted]).tolist():
        own = counted[calls.thread[counted] == thread]
        wanted = np.flatnonzero(nodes.process == calls.process[own[0]])
        around = enclosing(nodes.number[wanted], calls.first_number[own], calls.end_number[own])
        call, at = own[around.row[around.found]], wanted[around.found]
        is_later = calls.start_ns[call] < nodes.start_ns[at]
        before = latest[at]
        is_later &= (before < 0) | (calls.start_ns[call] > calls.start_ns[before])
        latest[at[is_later]] = call[is_later]
    return latest
