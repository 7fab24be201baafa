"""What the stacks of a flame graph are weighted by: CPU time, time off CPU, GPU time and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from warpline.derived.host.samples import weights
from warpline.derived.host.states import State, thread_states
from warpline.derived.host.thread_rows import thread_blocks, thread_rows
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.errors import MissingTableError, UsageError
from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.tree import nest
from warpline.presentation.kernel_names import short_names
from warpline.schema.labels import COPY_KINDS
from warpline.trace import ColumnData, Trace

Of = Literal["cpu", "python", "gpu", "offcpu", "os"]
OFS: tuple[Of, ...] = get_args(Of)
TITLES: Mapping[Of, str] = {
    "cpu": "CPU time",
    "python": "Python time",
    "gpu": "GPU time",
    "offcpu": "Time off CPU",
    "os": "Time in OS calls",
}
MEANINGS: Mapping[Of, str] = {
    "cpu": "CPU samples, weighted by the CPU time that each represents.",
    "python": "Samples of Python threads, running or not, weighted by the time of each.",
    "gpu": "CPU stacks of CUDA API calls, weighted by the GPU time of what they launched.",
    "offcpu": "Where threads stopped, weighted by the time until they ran again.",
    "os": "OS calls, weighted by their duration. Calls within calls are not counted again.",
}
# How each kind is recorded.
_HOW: Mapping[Of, str] = {
    "cpu": "--sample=process-tree",
    "python": "--python-sampling=true",
    "gpu": "--cudabacktrace=all or --python-backtrace=cuda",
    "offcpu": "--cpuctxsw=process-tree",
    "os": "-t osrt",
}
_SHOWN_THREADS = 10
_NONE = -1
_RUNNABLE = "[runnable]"
_OTHER_OPERATIONS = {"memset": "[CUDA memset]", "graph_launch": "CUDA graph"}


@frozen
class Choice:
    """What a flame graph shows.

    Attributes:
        of: What stacks are weighted by.
        python_only: Whether to keep only Python frames and what ran below them.
        threads: Rows of the table thread; None for all threads.
    """

    of: Of
    python_only: bool = False
    threads: tuple[int, ...] | None = None


class Weighted(NamedTuple):
    """Stacks with weights, each of shape (n,).

    Attributes:
        time_ns: When each was taken or began.
        thread: Rows of the table thread; -1 if unknown.
        stack: Rows of the table stack; -1 for none.
        leaf: What ran below the innermost frame, such as a kernel: places in `leaves`; -1 for
            nothing.
        weight_ns: Not negative.
        leaves: The distinct names.
    """

    time_ns: I64
    thread: I32
    stack: I32
    leaf: I32
    weight_ns: I64
    leaves: tuple[str, ...] = ()


def weighted(trace: Trace, choice: Choice) -> Weighted:
    """Return the stacks of one kind; there are some if `available` has it."""
    found = _MAKERS[choice.of](trace)
    if choice.threads is None:
        return found
    kept = np.isin(found.thread, choice.threads)
    return found._replace(
        time_ns=found.time_ns[kept],
        thread=found.thread[kept],
        stack=found.stack[kept],
        leaf=found.leaf[kept],
        weight_ns=found.weight_ns[kept],
    )


def choose(
    trace: Trace, of: str | None = None, *, python_only: bool = False, threads: Sequence[str] = ()
) -> Choice:
    """Return what a flame graph shows, from what users type.

    Args:
        trace: The trace.
        of: The kind; None for the first that was recorded.
        python_only: As for `Choice`.
        threads: Thread ids, or parts of thread names; none for all threads.

    Raises:
        UsageError: There is no such kind or thread.
        MissingTableError: The recording has no stacks of this kind.
    """
    known = {str(each): each for each in OFS}
    if of is not None and of not in known:
        raise UsageError(f"unknown kind of flame graph {of!r}", hint=f"use {', '.join(OFS)}")
    found = available(trace)
    if not found:
        hint = "profile with --sample=process-tree or --python-sampling=true"
        raise MissingTableError("no samples and no backtraces were recorded", hint=hint)
    kind = found[0] if of is None else known[of]
    if kind not in found:
        hint = f"profile with {_HOW[kind]}, or use {' or '.join(found)}"
        raise MissingTableError(f"{TITLES[kind]}: no stacks were recorded", hint=hint)
    return Choice(kind, python_only, _threads(trace, threads) if threads else None)


def _threads(trace: Trace, words: Sequence[str]) -> tuple[int, ...]:
    columns = trace.columns("thread", "tid", "name_id")
    names = trace.strings.texts(columns["name_id"].filled(0).tolist()) if len(trace.strings) else []
    tids, is_named = columns["tid"].values.tolist(), columns["name_id"].is_valid().tolist()
    rows: list[int] = []
    for word in words:
        own = [
            row
            for row, tid in enumerate(tids)
            if str(tid) == word or (is_named[row] and word.lower() in names[row].lower())
        ]
        if not own:
            some = ", ".join(map(str, tids[:_SHOWN_THREADS]))
            raise UsageError(f"no thread {word!r} in the recording", hint=f"threads: {some}")
        rows += own
    return tuple(sorted(set(rows)))


def available(trace: Trace) -> tuple[Of, ...]:
    """Return the kinds of flame graphs that a trace has data for."""
    return tuple(of for of in OFS if _HAS[of](trace))


def _of_samples(table: str) -> Callable[[Trace], Weighted]:
    def of_samples(trace: Trace) -> Weighted:
        columns = trace.columns(table, "time_ns", "thread_id", "stack_id")
        time, nothing = columns["time_ns"].values, np.full(trace.row_count(table), _NONE, np.int32)
        thread, stack = _rows(columns["thread_id"]), _rows(columns["stack_id"])
        return Weighted(time, thread, stack, nothing, weights(trace, table))

    return of_samples


def _off_cpu(trace: Trace) -> Weighted:
    states = thread_states(trace)
    off = np.flatnonzero((states.state == State.RUNNABLE) | (states.state == State.BLOCKED))
    name, leaves = states.name[off], (*states.names, _RUNNABLE)
    stack = states.stack_id[off]
    is_frame = _is_innermost(trace, stack, name, states.names)
    leaf = np.where(is_frame, _NONE, name)
    leaf = np.where(states.state[off] == State.RUNNABLE, len(states.names), leaf).astype(np.int32)
    start, end = states.start_ns[off], states.end_ns[off]
    return Weighted(start, states.thread_id[off], stack, leaf, end - start, leaves)


def _is_innermost(trace: Trace, stack: I32, name: I32, names: tuple[str, ...]) -> BoolArray:
    """Return whether a name is that of the innermost frame of its stack."""
    rows = np.flatnonzero((stack >= 0) & (name >= 0))
    found = np.zeros(len(stack), np.bool_)
    if len(rows):
        frame = trace.columns("stack", "frame_id")["frame_id"].values[stack[rows]]
        symbol = trace.columns("frame", "symbol_id")["symbol_id"].values[frame]
        pairs = factorize_rows(symbol, name[rows])
        texts = trace.strings.texts(symbol[pairs.first].tolist())
        same = [
            names[at] == text
            for at, text in zip(name[rows][pairs.first].tolist(), texts, strict=True)
        ]
        found[rows] = np.array(same, np.bool_)[pairs.codes]
    return found


def _gpu(trace: Trace) -> Weighted:
    work = operations(trace)
    leaf, leaves = _operation_names(trace)
    thread = np.full(len(work), _NONE, np.int32)
    stack = thread.copy()
    if trace.has("api_call"):
        has_call = work.call >= 0
        columns = trace.columns("api_call", "thread_id", "stack_id")
        thread[has_call] = _rows(columns["thread_id"])[work.call[has_call]]
        stack[has_call] = _rows(columns["stack_id"])[work.call[has_call]]
    return Weighted(work.start_ns, thread, stack, leaf, work.end_ns - work.start_ns, leaves)


def _operation_names(trace: Trace) -> tuple[I32, tuple[str, ...]]:
    """Return the name of each operation, places in the names."""
    work = operations(trace)
    texts: list[str] = []
    name = np.zeros(len(work), np.int32)
    for place, table in enumerate(DEVICE_TABLES):
        own = np.flatnonzero(work.table == place)
        if not len(own):
            continue
        if table == "kernel":
            ids = trace.columns("kernel", "name_id")["name_id"].values[work.row[own]]
            used = distinct_values(ids)
            full = trace.strings.texts(used.tolist())
            short = short_names(full)
            found = [short[text] for text in full]
        elif table == "memcpy":
            ids = trace.columns("memcpy", "kind")["kind"].filled(0)[work.row[own]]
            used = distinct_values(ids)
            kinds = (COPY_KINDS.get(kind, f"kind {kind}") for kind in used.tolist())
            found = [f"[CUDA memcpy {kind}]" for kind in kinds]
        else:
            ids, used = np.zeros(len(own), np.int32), np.zeros(1, np.int32)
            found = [_OTHER_OPERATIONS[table]]
        name[own] = len(texts) + np.searchsorted(used, ids)
        texts += found
    return name, tuple(texts)


def _os(trace: Trace) -> Weighted:
    columns = trace.columns("os_call", "start_ns", "end_ns", "thread_id", "name_id", "stack_id")
    start = columns["start_ns"].values
    end = np.maximum(start, columns["end_ns"].values)
    thread, stack = _rows(columns["thread_id"]), _rows(columns["stack_id"])
    parts = (
        rows[~nest(start[rows], end[rows], thread[rows]).has_parent]
        for block in thread_blocks(trace, ("os_call",))
        for rows in [thread_rows(trace, "os_call").of(block)]
    )
    outer = np.sort(np.concatenate([*parts]))
    used = distinct_values(columns["name_id"].values)
    leaf = np.searchsorted(used, columns["name_id"].values[outer]).astype(np.int32)
    names = tuple(trace.strings.texts(used.tolist()))
    return Weighted(start[outer], thread[outer], stack[outer], leaf, (end - start)[outer], names)


def _rows(column: ColumnData) -> I32:
    return column.filled(_NONE).astype(np.int32)


def _has_rows(table: str) -> Callable[[Trace], bool]:
    return lambda trace: trace.has(table) and trace.row_count(table) > 0


def _has_stacks(table: str) -> Callable[[Trace], bool]:
    def has_stacks(trace: Trace) -> bool:
        if not _has_rows(table)(trace) or not _has_rows("stack")(trace):
            return False
        return bool(trace.columns(table, "stack_id")["stack_id"].is_valid().any())

    return has_stacks


_MAKERS: Mapping[Of, Callable[[Trace], Weighted]] = {
    "cpu": _of_samples("cpu_sample"),
    "python": _of_samples("python_sample"),
    "gpu": _gpu,
    "offcpu": _off_cpu,
    "os": _os,
}
_HAS: Mapping[Of, Callable[[Trace], bool]] = {
    "cpu": _has_rows("cpu_sample"),
    "python": _has_rows("python_sample"),
    "gpu": lambda trace: _has_stacks("api_call")(trace) and len(operations(trace)) > 0,
    "offcpu": _has_rows("sched_event"),
    "os": _has_stacks("os_call"),
}
