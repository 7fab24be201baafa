"""A framework's operator calls, with their CPU and GPU time.

Definitions follow `torch.profiler`'s ``key_averages()``, so that the same trace gives the same
numbers. Annotations count as calls. The time of a CUDA API call inside an operator is not part of
its self time. A call whose only child has the same name is merged with it. The profiler's own
helpers are excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.texts import number_texts
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I32, I64, BoolArray
from warpline.ops.join import Lookup
from warpline.ops.tree import Nesting, accumulate_up, enclosing, nest
from warpline.schema.labels import RANGE_STYLES
from warpline.trace import Trace
from warpline.trace.annotated_operators import annotation

OPERATOR, ANNOTATION = 0, 1
CALL_KINDS = ("Operator", "Annotation")

_OPERATING_CALL = 2
_NOTHING = -1
_PUSH_POP = next(value for value, label in RANGE_STYLES.items() if label == "PushPop")
_STEP = "ProfilerStep#"
_ANY_STEP = "ProfilerStep*"
_NO_OPERATORS = frozenset(
    (
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    )
)


@dataclass(frozen=True)
class OperatorCalls:
    """Operators and annotations, operators first, each in the total order of its table.

    Attributes:
        kind: Shape (n,), int8, positions in `CALL_KINDS`.
        row: Shape (n,), int64, rows of `op` or `range`.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        name: Shape (n,), int32, positions in `names`.
        names: The distinct names; the profiler's steps share one.
        nesting: Nesting of the calls of each thread.
        counted: Shape (n,), int64, the call that each is merged into, usually itself.
        host_ns: Shape (n,), int64, CPU time.
        self_host_ns: Shape (n,), int64, CPU time without nested calls and CUDA API calls.
    """

    kind: I8
    row: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    name: I32
    names: tuple[str, ...]
    nesting: Nesting
    counted: I64
    host_ns: I64
    self_host_ns: I64

    def __len__(self) -> int:
        return len(self.row)

    def inclusive(self, own: I64) -> I64:
        """Return the sums over each call and all calls nested in it."""
        return accumulate_up(self.nesting, own)

    def among(self, chosen: I64, time_ns: I64, thread: I64) -> Lookup:
        """Return the innermost of the chosen calls open on a thread at each time."""
        if not len(chosen):
            return Lookup(np.zeros(len(time_ns), np.int64), np.zeros(len(time_ns), np.bool_))
        around = enclosing(
            time_ns,
            self.start_ns[chosen],
            self.end_ns[chosen],
            point_group=thread,
            group=self.thread[chosen],
        )
        return Lookup(chosen[around.row], around.found)


class _Spans(NamedTuple):
    """Intervals of CPU threads."""

    start: I64
    end: I64
    thread: I64
    name: I64
    row: I64


@derived
def operator_calls(trace: Trace) -> OperatorCalls:
    """Return the calls of operators, and the annotations of processes that have operators."""
    parts = [_operators(trace), _annotations(trace), _cuda_calls(trace)]
    start, end, thread, name, row = (np.concatenate(column) for column in zip(*parts, strict=True))
    kinds = np.repeat(np.arange(3, dtype=np.int8), [len(part.row) for part in parts])
    every = nest(start, end, thread)
    length = end - start
    inside, count = _sums_of_children(every, length)
    shown = np.flatnonzero(kinds != _OPERATING_CALL)
    codes, names = _names(trace, name[shown])
    # CUDA API calls contain no shown calls, so nesting is computed without them.
    nesting = nest(start[shown], end[shown], thread[shown])
    twin = _is_twin(every, count, np.concatenate((codes, np.full(len(parts[2].row), _NOTHING))))
    return OperatorCalls(
        kind=kinds[shown],
        row=row[shown],
        start_ns=start[shown],
        end_ns=end[shown],
        thread=thread[shown],
        name=codes,
        names=names,
        nesting=nesting,
        counted=_counted(every, twin)[shown],
        host_ns=length[shown],
        self_host_ns=np.maximum(length - inside, 0)[shown],
    )


@derived
def work_of_calls(trace: Trace) -> Lookup:
    """Return the position in `operator_calls` of the call that launched each GPU operation.

    It is the innermost operator open on the thread when the launch call starts, or outside all
    operators the innermost annotation. Shape (operations,), rows as in `operations`.
    """
    calls, work = operator_calls(trace), operations(trace)
    known = np.flatnonzero(work.call >= 0)
    row, found = np.zeros(len(work), np.int64), np.zeros(len(work), np.bool_)
    if len(known) and len(calls):
        launched = trace.columns("api_call", "start_ns", "thread_id")
        time = launched["start_ns"].values[work.call[known]]
        thread = launched["thread_id"].values[work.call[known]].astype(np.int64)
        around = calls.among(np.arange(len(calls)), time, thread)
        operator = calls.among(np.flatnonzero(calls.kind == OPERATOR), time, thread)
        row[known] = np.where(operator.found, operator.row, around.row)
        found[known] = operator.found | around.found
    return Lookup(row, found)


@derived
def device_time_of_calls(trace: Trace) -> I64:
    """Return the total duration of the work launched directly by each call, shape (calls,), ns."""
    calls, work, owner = operator_calls(trace), operations(trace), work_of_calls(trace)
    own = np.zeros(len(calls), np.int64)
    np.add.at(own, owner.row[owner.found], (work.end_ns - work.start_ns)[owner.found])
    return own


def _spans(trace: Trace, table: str, *, named: bool) -> _Spans:
    wanted = ("start_ns", "end_ns", "thread_id", *(("name_id",) if named else ()))
    columns = trace.columns(table, *wanted)
    start, end, thread = (columns[name].values.astype(np.int64) for name in wanted[:3])
    name = columns["name_id"].filled(0).astype(np.int64) if named else np.zeros_like(start)
    return _Spans(
        start=start, end=np.maximum(start, end), thread=thread, name=name, row=np.arange(len(start))
    )


def operator_rows(trace: Trace) -> I64:
    """Return the rows of `op` without the profiler's own helpers, shape (n,), ascending."""
    names = trace.columns("op", "name_id")["name_id"].filled(0)
    pool = (trace.strings.find(name) for name in _NO_OPERATORS)
    left_out = [number for number in pool if number is not None]
    return np.flatnonzero(~np.isin(names, left_out))


def _operators(trace: Trace) -> _Spans:
    spans, rows = _spans(trace, "op", named=True), operator_rows(trace)
    return _Spans(*(column[rows] for column in spans))


def _annotations(trace: Trace) -> _Spans:
    """Return the ranges in the default domain, which the framework uses for annotations."""
    if not trace.has("range"):
        return _Spans(*(np.zeros(0, np.int64) for _ in _Spans._fields))
    spans = _spans(trace, "range", named=True)
    columns = trace.columns("range", "process_id", "domain_id", "end_thread_id", "style", "name_id")
    has_operators = np.isin(
        columns["process_id"].values, trace.columns("op", "process_id")["process_id"].values
    )
    is_one = has_operators & ~columns["domain_id"].is_valid() & columns["name_id"].is_valid()
    is_one &= ~columns["end_thread_id"].is_valid() & (columns["style"].values == _PUSH_POP)
    rows = np.flatnonzero(is_one)
    rows = rows[~_are_operators(trace, columns["name_id"].values[rows])]
    return _Spans(*(column[rows] for column in spans))


def _are_operators(trace: Trace, names: I32) -> BoolArray:
    """Return which names of ranges are PyTorch's of operators, which are rows of `op`, too."""
    distinct, codes = np.unique(names, return_inverse=True)
    said = [annotation(text) for text in trace.strings.texts(distinct.tolist())]
    are = np.array([one is not None and one.is_operator for one in said], np.bool_)
    of_rows: BoolArray = are[codes]
    return of_rows


def _cuda_calls(trace: Trace) -> _Spans:
    if not trace.has("api_call"):
        return _Spans(*(np.zeros(0, np.int64) for _ in _Spans._fields))
    return _spans(trace, "api_call", named=False)


def _sums_of_children(nesting: Nesting, length: I64) -> tuple[I64, I64]:
    """Return the total length and the number of the direct children of each interval."""
    rows = np.flatnonzero(nesting.has_parent)
    sums, count = np.zeros_like(length), np.zeros_like(length)
    np.add.at(sums, nesting.parent[rows], length[rows])
    np.add.at(count, nesting.parent[rows], 1)
    return sums, count


def _names(trace: Trace, ids: I64) -> tuple[I32, tuple[str, ...]]:
    codes, distinct = number_texts(ids, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    shown = [_ANY_STEP if text.startswith(_STEP) else text for text in texts]
    names = tuple(sorted(set(shown)))
    place = {text: number for number, text in enumerate(names)}
    return np.array([place[text] for text in shown], np.int32)[codes], names


def _is_twin(nesting: Nesting, children: I64, name: I32) -> BoolArray:
    """Return which calls are the only child of a call with the same name."""
    parent = nesting.parent
    same = (name == name[parent]) & (name != _NOTHING) if len(name) else name != _NOTHING
    is_twin: BoolArray = nesting.has_parent & same & (children[parent] == 1)
    return is_twin


def _counted(nesting: Nesting, twin: BoolArray) -> I64:
    counted = np.arange(len(twin))
    rows = np.flatnonzero(twin)
    while len(rows):
        counted[rows] = nesting.parent[counted[rows]]
        rows = rows[twin[counted[rows]]]
    return counted
