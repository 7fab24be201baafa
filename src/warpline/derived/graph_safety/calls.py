"""CUDA API calls of steps that are errors during capture, or that replays do not repeat.

A copy and the synchronization directly behind it on its thread are one offender: ``.item()`` and
``.to("cuda")`` make both.

PyTorch's caching allocator queries events, and allocates in the first steps. During capture it
defers the queries, and allocates in the pool of the graph, so neither counts. Nor do waits of
DistributedDataParallel, which measures its first ten iterations only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.graph_safety import kinds
from warpline.derived.graph_safety.kinds import Kind
from warpline.derived.graph_safety.places import code_places
from warpline.derived.graph_safety.scope import NO_STEP, checked_steps
from warpline.derived.idle.host_calls import numbers_of_texts, working_calls, working_threads
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.program import program_kind
from warpline.derived.python_stacks import python_stacks
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.stacks import innermost_range
from warpline.derived.texts import without_version
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Run, Trace
from warpline.vocabulary import Vocabulary

_PAGEABLE = next(kind for kind, label in MEMORY_KINDS.items() if label == "Pageable")
_TO_HOST = [kind for kind, label in COPY_KINDS.items() if label == "Device-to-Host"]
_TO_DEVICE = [kind for kind, label in COPY_KINDS.items() if label == "Host-to-Device"]
_UNKNOWN = -1
# Of the steps: less often, an allocation is a cache that is filled.
_RECURS = 0.5

_QUERIES = frozenset({"EventQuery", "StreamQuery"})
_FREES = ("Free", "MemFree", "HostUnregister", "MemHostUnregister", "MemRelease", "MemUnmap")
_LOADS = ("ModuleLoad", "ModuleUnload", "LibraryLoad", "LibraryUnload", "Link")
_UNSUPPORTED = ("StreamAddCallback", "StreamAttachMem", "DeviceReset")


# Of the runtime and of the driver.
CAPTURE_ERRORS = {
    900: "cudaErrorStreamCaptureUnsupported",
    901: "cudaErrorStreamCaptureInvalidated",
    902: "cudaErrorStreamCaptureMerge",
    903: "cudaErrorStreamCaptureUnmatched",
    904: "cudaErrorStreamCaptureUnjoined",
    905: "cudaErrorStreamCaptureIsolation",
    906: "cudaErrorStreamCaptureImplicit",
    907: "cudaErrorCapturedEvent",
    908: "cudaErrorStreamCaptureWrongThread",
}
_INVALIDATED = 901
_DDP = "/torch/nn/parallel/distributed.py:"
_DDP_RANGE = "DistributedDataParallel.forward"


class _What(Vocabulary):
    """What a function does, as far as capture is concerned."""

    OTHER = ""
    QUERY = "query"
    ALLOCATE = "allocate"
    FREE = "free"
    LOAD = "load"
    UNSUPPORTED = "unsupported"
    WAIT = "wait"
    COPY = "synchronous copy"
    GRAPH = "graph"


class OffendingCalls(NamedTuple):
    """Calls of one kind, in included steps.

    Attributes:
        kind: What they are.
        rows: Shape (n,), int64, rows of api_call, ascending.
    """

    kind: Kind
    rows: I64


class Copies(NamedTuple):
    """Copies between CPU and GPU in included steps, by what is wrong with them.

    Attributes:
        offending: The calls of those that cannot be captured, by kind.
        waits: Shape (n,), int64, the calls that wait for these, rows of api_call.
        inputs: Shape (m,), int64, calls of copies to the GPU that can be captured: they copy from
            the same address in each replay.
        results: Shape (k,), int64, the same, to the CPU.
    """

    offending: tuple[OffendingCalls, ...]
    waits: I64
    inputs: I64
    results: I64


@derived
def offending_calls(run: Run) -> tuple[OffendingCalls, ...]:
    """Return the calls that prevent the capture of the included steps."""
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return ()
    copies, what = step_copies(run), _what(trace)
    rows = np.flatnonzero(_of_steps(run))
    rows = rows[~np.isin(rows, copies.waits) & _is_outermost(trace)[rows]]
    done = np.concatenate([copies.waits[:0], *(each.rows for each in copies.offending)])
    kind = what[rows]
    found = list(copies.offending)

    def add(which: Kind, chosen: I64) -> None:
        if len(chosen):
            found.append(OffendingCalls(which, chosen))

    waits = rows[kind == _What.WAIT]
    add(kinds.SYNCHRONIZATION, waits[~_of_ddp_statistics(trace, waits)])
    synchronous = rows[kind == _What.COPY]
    add(kinds.SYNCHRONOUS_CALL, synchronous[~np.isin(synchronous, done)])
    add(kinds.QUERY, _own_queries(trace, rows[kind == _What.QUERY]))
    add(kinds.ALLOCATION, _recurring(run, rows[kind == _What.ALLOCATE]))
    add(kinds.FREE, rows[kind == _What.FREE])
    add(kinds.MODULE_LOAD, _recurring(run, rows[kind == _What.LOAD]))
    add(kinds.RECAPTURE, _recurring(run, rows[kind == _What.GRAPH]))
    add(kinds.UNSUPPORTED, rows[kind == _What.UNSUPPORTED])
    return tuple(found)


@derived
def step_copies(run: Run) -> Copies:
    """Return the copies between CPU and GPU in included steps."""
    trace = run.trace
    work, none = operations(trace), np.zeros(0, np.int64)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    copies = copies[_of_steps(run)[work.call[copies]]] if len(copies) else copies
    if not len(copies):
        return Copies((), none, none, none)
    columns, row = trace.columns("memcpy", "kind", "src_memory", "dst_memory"), work.row[copies]
    kind = columns["kind"].values[row]
    source, target = (columns[name].filled(_UNKNOWN)[row] for name in ("src_memory", "dst_memory"))
    is_pageable = (source == _PAGEABLE) | (target == _PAGEABLE)
    to_host, to_device = np.isin(kind, _TO_HOST), np.isin(kind, _TO_DEVICE)
    call = work.call[copies]
    is_synchronous = _what(trace)[call] == _What.COPY
    is_awaited = (_wait_behind(trace)[call] >= 0) | is_synchronous
    by_kind = (
        (kinds.CPU_READ, to_host & (is_pageable | is_awaited)),
        (kinds.PAGEABLE_COPY, to_device & is_pageable),
        (kinds.BLOCKING_COPY, to_device & ~is_pageable & is_awaited),
    )
    offending = [(which, distinct_values(call[chosen])) for which, chosen in by_kind]
    wrong = np.concatenate([calls for _, calls in offending])
    fine, waits = ~np.isin(call, wrong), _wait_behind(trace)[wrong]
    return Copies(
        offending=tuple(OffendingCalls(*each) for each in offending if len(each[1])),
        waits=distinct_values(waits[waits >= 0]),
        inputs=distinct_values(call[fine & to_device]),
        results=distinct_values(call[fine & to_host]),
    )


@derived
def unsafe_elsewhere(run: Run) -> I64:
    """Return calls during steps by threads that launch nothing, rows of api_call.

    Such as those of a thread that pins batches, or of NCCL's watchdog. With the capture mode
    ``global``, PyTorch's default, they are errors while another thread captures.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return np.zeros(0, np.int64)
    thread = trace.columns("api_call", "thread_id")["thread_id"].values
    others = (checked_steps(run).of_call != NO_STEP) & ~working_threads(trace)[thread]
    unsafe = (_What.QUERY, _What.ALLOCATE, _What.FREE, _What.WAIT, _What.LOAD)
    return np.flatnonzero(others & np.isin(_what(trace), unsafe))


@derived
def refused_calls(trace: Trace) -> I64:
    """Return the calls that failed because of a capture, rows of api_call, in or out of steps.

    Without those that fail because a capture had failed before, unless there are no others.
    """
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return np.zeros(0, np.int64)
    status = trace.columns("api_call", "return_value")["return_value"].values
    refused = np.flatnonzero(np.isin(status, list(CAPTURE_ERRORS)))
    causes = refused[status[refused] != _INVALIDATED]
    return causes if len(causes) else refused


def _of_steps(run: Run) -> BoolArray:
    """Return which calls were made in included steps by threads that launch work."""
    thread = run.trace.columns("api_call", "thread_id")["thread_id"].values
    chosen: BoolArray = (checked_steps(run).of_call != NO_STEP) & working_threads(run.trace)[thread]
    return chosen


@derived
def _wait_behind(trace: Trace) -> I64:
    """Return the synchronization that follows each call on its thread, -1 for none.

    Shape (rows of api_call,). No other work is launched between, and both are on one line of
    Python code, if lines were recorded. Only of threads that launch work.
    """
    calls, launched = working_calls(trace), operations(trace).call
    behind = np.full(trace.row_count("api_call"), _UNKNOWN, np.int64)
    is_wait = (calls.kind == CallKind.HOST_SYNC) & _is_outermost(trace)[calls.row]
    rows = np.flatnonzero(is_wait | np.isin(calls.row, launched[launched >= 0]))
    rows = rows[np.argsort(calls.thread[rows], kind="stable")]
    thread = calls.thread[rows]
    follows = (thread[1:] == thread[:-1]) & is_wait[rows[1:]]
    line = _lines(trace)[calls.row[rows]]
    follows &= line[1:] == line[:-1]
    behind[calls.row[rows[:-1][follows]]] = calls.row[rows[1:][follows]]
    return behind


def _lines(trace: Trace) -> I64:
    """Return a number for the line of Python code of each call, -1 for none."""
    numbers: dict[str, int] = {}
    of_stacks = [numbers.setdefault(place.text, len(numbers)) for place in code_places(trace)]
    return np.array([*of_stacks, _UNKNOWN], np.int64)[python_stacks(trace).codes]


@derived
def _is_outermost(trace: Trace) -> BoolArray:
    """Return which calls are not inside another one of their thread, shape (rows of api_call,).

    Such as a driver function in its runtime function, or a call that is recorded a second time with
    its backtrace.
    """
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values for column in columns.values())
    outermost = np.ones(len(start), np.bool_)
    order = np.lexsort((-end, start, thread))
    for rows in np.split(order, np.flatnonzero(np.diff(thread[order])) + 1):
        reach = np.maximum.accumulate(end[rows])
        outermost[rows[1:]] = end[rows[1:]] > reach[:-1]
    return outermost


def _of_ddp_statistics(trace: Trace, rows: I64) -> BoolArray:
    """Return which waits DistributedDataParallel makes, to measure its first ten iterations."""
    codes, texts = python_stacks(trace).codes[rows], python_stacks(trace).texts
    of_stacks = np.array([*(_DDP in text for text in texts), False])
    found: BoolArray = of_stacks[codes]
    if trace.has("range") and trace.row_count("range"):
        around, names = innermost_range(trace, "api_call"), range_names(trace)
        of_names = np.array([_DDP_RANGE in (text or "") for text in names.texts])
        found = found | (around.found[rows] & of_names[names.codes[around.row[rows]]])
    return found


def _recurring(run: Run, rows: I64) -> I64:
    """Return the calls if at least half of the steps make some of them, else none."""
    _, own, count = checked_steps(run).most_of_process(rows)
    return rows if own and own >= _RECURS * count else rows[:0]


def _own_queries(trace: Trace, rows: I64) -> I64:
    """Return the queries that the program makes itself, not those of PyTorch's allocator."""
    if program_kind(trace) != "pytorch":
        return rows
    codes = python_stacks(trace).codes[rows]
    is_query = np.array([*(place.innermost == "query" for place in code_places(trace)), False])
    own: I64 = rows[is_query[codes]]
    return own


@derived
def _what(trace: Trace) -> I8:
    """Return what each call does, shape (rows of api_call,)."""
    names = trace.columns("api_call", "name_id")["name_id"].values
    return numbers_of_texts(trace, names, _what_of)


def _what_of(name: str) -> _What:
    kind, plain = call_kind(name), without_version(name).removeprefix("cuda")
    plain = plain.removeprefix("hip").removeprefix("cu")
    is_waiting = "Async" not in plain
    found = {
        _What.WAIT: kind == CallKind.HOST_SYNC,
        _What.QUERY: plain in _QUERIES,
        _What.UNSUPPORTED: plain.startswith(_UNSUPPORTED),
        _What.COPY: kind == CallKind.COPY or (plain.startswith("Memset") and is_waiting),
        _What.FREE: kind == CallKind.ALLOCATOR and is_waiting and plain.startswith(_FREES),
        _What.ALLOCATE: kind == CallKind.ALLOCATOR and is_waiting,
        _What.LOAD: plain.startswith(_LOADS),
        _What.GRAPH: kind in (CallKind.BEGIN_CAPTURE, CallKind.GRAPH_INSTANTIATION),
    }
    return next((what for what, is_so in found.items() if is_so), _What.OTHER)
