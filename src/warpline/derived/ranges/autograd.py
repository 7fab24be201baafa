"""PyTorch's backward work, by forward range.

With NVTX annotations (emit_nvtx), PyTorch marks operators as ``aten::addmm, seq = 955, op_id = 7``
and backward functions, which run on their own thread, as ``AddmmBackward0, seq = 955, op_id = 9``
inside ``autograd::engine::evaluate_function: AddmmBackward0, op_id = 8``. The sequence number is a
counter of the forward thread that increases when an operator creates a backward function. The last
operator to start with a number created the backward function with that number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranges.work import launched_work, work_timeline
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.join import lookup_rows
from warpline.ops.tree import Nesting, Pairs, accumulate_up, enclosing
from warpline.trace import Trace
from warpline.units import plural

AUTOGRAD_ARGUMENT = {
    "autograd": "add columns for backward work, linked to forward ranges by the sequence numbers"
    " in PyTorch's NVTX annotations"
}

_NUMBERED = lazy_pattern(r"(?<![^,])(?P<name>[^,]*+), seq = (?P<seq>[0-9]{1,18})(?=,|$)")
_BACKWARD = lazy_pattern(r"Backward[0-9]*$")
_AROUND = "autograd::engine::evaluate_function: "


class BackwardWork(NamedTuple):
    """The backward work of each range, rows in the table's total order; 0 if there is none.

    Attributes:
        operations: Shape (ranges,), int64.
        busy_ns: Shape (ranges,), int64, union of the operations.
        notes: Caveats shown with these values.
    """

    operations: I64
    busy_ns: I64
    notes: tuple[str, ...]


class NumberedRanges(NamedTuple):
    """Ranges with a sequence number.

    Attributes:
        row: Shape (n,), int64, rows of the range table, ascending.
        number: Shape (n,), int64.
        is_backward: Shape (n,), bool, whether they are functions of the backward pass.
    """

    row: I64
    number: I64
    is_backward: BoolArray


class ForwardRanges(NamedTuple):
    """Backward ranges and the forward ranges that created their functions.

    Attributes:
        backward: Shape (n,), int64, rows of the range table.
        forward: Shape (n,), int64, rows of the range table.
    """

    backward: I64
    forward: I64


@derived
def forward_ranges(trace: Trace) -> ForwardRanges:
    """Return the forward range of each backward range that can be linked."""
    return _links(trace, numbered_ranges(trace))


@derived
def backward_ranges(trace: Trace) -> NumberedRanges:
    """Return the backward functions among the ranges with a sequence number."""
    row, number, chosen = numbered_ranges(trace)
    return NumberedRanges(row[chosen], number[chosen], chosen[chosen])


@derived
def backward_work(trace: Trace) -> BackwardWork:
    """Return the work launched by backward functions, by forward range.

    The work belongs to the operator that created the function and to all push/pop ranges around
    that operator. An operation counts for the innermost backward function around its launch call.
    """
    numbered, nesting = numbered_ranges(trace), range_nesting(trace)
    links = forward_ranges(trace)
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values for column in columns.values())
    outer = _with_what_is_around(trace, links.backward)
    calls = trace.columns("api_call", "start_ns", "thread_id")
    call = launched_work(trace).call
    inside = enclosing(
        calls["start_ns"].values[call],
        start[outer],
        end[outer],
        point_group=calls["thread_id"].values[call],
        group=thread[outer],
    )
    members = np.flatnonzero(inside.found)
    forward = links.forward[inside.row[members]]
    own = np.bincount(forward, minlength=len(start))
    blocks = _with_ancestors(nesting, forward, members)
    took = work_timeline(trace).measure(blocks, len(start))
    n_backward = int(np.count_nonzero(numbered.is_backward))
    return BackwardWork(accumulate_up(nesting, own), took.busy_ns, _notes(n_backward, links))


def _notes(n_backward: int, links: ForwardRanges) -> tuple[str, ...]:
    if not n_backward:
        return ("no backward work was linked: no backward range has a sequence number",)
    n_links = len(links.backward)
    if n_links == n_backward:
        return ()
    named = plural(n_backward, "backward range")
    missing = f"{n_backward - n_links:,} of {named}"
    return (f"{missing} could not be linked: sequence number missing or not unique",)


@derived
def numbered_ranges(trace: Trace) -> NumberedRanges:
    """Return the push/pop ranges with a sequence number."""
    names = range_names(trace)
    matches = [None if text is None else _NUMBERED.search(text) for text in names.texts]
    number = np.array([-1 if match is None else int(match["seq"]) for match in matches], np.int64)
    backward = [match is not None and bool(_BACKWARD.search(match["name"])) for match in matches]
    of_row = number[names.codes]
    rows = np.flatnonzero((of_row >= 0) & push_pop_ranges(trace))
    return NumberedRanges(rows, of_row[rows], np.array(backward, np.bool_)[names.codes[rows]])


def _links(trace: Trace, numbered: NumberedRanges) -> ForwardRanges:
    """Match backward and forward ranges of a process by sequence number.

    Counters are per thread: a number used by two threads of a process is not matched.
    """
    columns = trace.columns("range", "start_ns", "thread_id", "process_id")
    start, thread, process = (column.values for column in columns.values())
    is_forward = ~numbered.is_backward
    rows, numbers = numbered.row[is_forward], numbered.number[is_forward]
    order = np.argsort(thread[rows], kind="stable")  # on one thread, by start
    rows, numbers = rows[order], numbers[order]
    backward = numbered.row[numbered.is_backward]
    wanted = (process[backward], numbered.number[numbered.is_backward])
    table = (process[rows], numbers)
    first = lookup_rows(wanted, table, duplicates="first")
    last = lookup_rows(wanted, table, duplicates="last")
    both = np.flatnonzero(last.found)
    creator, other, backward = rows[last.row[both]], rows[first.row[both]], backward[both]
    is_sure = (thread[creator] == thread[other]) & (start[creator] < start[backward])
    return ForwardRanges(backward[is_sure], creator[is_sure])


def _with_what_is_around(trace: Trace, rows: I64) -> I64:
    """Return the autograd engine's range around each backward range, if there is one.

    It also contains work of the function: sums over broadcast dimensions.
    """
    names, nesting = range_names(trace), range_nesting(trace)
    parent = nesting.parent[rows]
    inner = (names.texts[code] or "" for code in names.codes[rows].tolist())
    outer = (names.texts[code] or "" for code in names.codes[parent].tolist())
    belongs = [
        around.partition(",")[0] == _AROUND + text.partition(",")[0]
        for text, around in zip(inner, outer, strict=True)
    ]
    return np.where(nesting.has_parent[rows] & np.array(belongs, np.bool_), parent, rows)


def _with_ancestors(nesting: Nesting, rows: I64, members: I64) -> Iterator[Pairs]:
    """Yield members with their range and all its enclosing ranges, one depth at a time."""
    at = rows.copy()
    for depth in range(int(nesting.depth[at].max(initial=-1)), -1, -1):
        here = np.flatnonzero(nesting.depth[at] == depth)
        yield Pairs(at[here], members[here])
        at[here] = nesting.parent[at[here]]
