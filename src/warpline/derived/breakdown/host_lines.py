"""Where CPU threads were during given times: lines of the program, from samples and backtraces.

A thread that runs is where its samples are. A thread that is blocked is where it stopped, or where
the samples of its Python stack are. Only the program's own lines count if there are any: of a stack
that ends in a library, the line that called into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.functions import functions
from warpline.derived.host.lines import leaf_places, place_text, place_texts
from warpline.derived.host.samples import has_samples, weights
from warpline.derived.host.states import Reason, State, ThreadStates, thread_states
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.program import is_python
from warpline.derived.recorder import hints
from warpline.ops.arrays import F64, I32, I64, BoolArray
from warpline.ops.group import factorize, factorize_rows
from warpline.ops.tiling import Cuts, Grouped, by_group, cut, rest
from warpline.schema.labels import CODE_KINDS
from warpline.trace import Trace
from warpline.units import format_ratio

NONE = -1
_PYTHON = next(kind for kind, label in CODE_KINDS.items() if label == "Python")
_TABLES = ("cpu_sample", "python_sample")
# What Python's functions are called whose waits the C library's names stand for.
_IN_PYTHON = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep", "usleep", "sleep"), "time.sleep"),
}
# The function that touched the memory is known, but does not wait by itself.
_PAGE_FAULTS = "page faults"
_SHOWN = 3
_LEAST_SHOWN = 0.1
_KEPT = 20  # lines
_FEWEST = 5  # samples of moments: fewer say nothing about shares


class Line(NamedTuple):
    """A function of the program and the time of threads in it.

    Attributes:
        text: Its name, file and most frequent line: ``decode (data.py:41)``. Of a blocked thread,
            what it is blocked on and where: ``time.sleep (train.py:88)``.
        ns: The time.
    """

    text: str
    ns: float


class Lines(NamedTuple):
    """Where threads were, the longest time first.

    Attributes:
        lines: The lines with most of the time.
        ns: All time, with and without a line.
        named_ns: The time with a line, also with one that is not among `lines`.
        rows: Rows of `table` that the lines come from, the first of each.
        samples: Number of these rows.
        table: The table with most of them; None without any.
    """

    lines: tuple[Line, ...]
    ns: float
    named_ns: float = 0.0
    rows: tuple[int, ...] = ()
    samples: int = 0
    table: str | None = None

    def main(self, least: float) -> Line | None:
        """Return the line with the most time, if it has at least a share of all time."""
        first = self.lines[0] if self.lines else None
        return first if first is not None and first.ns >= least * self.ns > 0 else None

    def most(self) -> tuple[Line, ...]:
        """Return up to three lines that have at least a tenth of all time each."""
        return tuple(line for line in self.lines[:_SHOWN] if line.ns >= _LEAST_SHOWN * self.ns > 0)

    def shared(self, whole: str) -> str:
        """Return a sentence after a space; empty without lines that have much of the time.

        Such as `` 71.0% of the stall is in decode (data.py:41), 12.0% collate (data.py:60).``

        Args:
            whole: What all time is: ``the stall``.
        """
        shares = [(format_ratio(line.ns / self.ns), line.text) for line in self.most()]
        if not shares:
            return ""
        (ratio, text), *others = shares
        listed = "".join(f", {each} {line}" for each, line in others)
        return f" {ratio} of {whole} is in {text}{listed}."


class _Samples(NamedTuple):
    """Samples with a stack, by thread and start; those of a thread do not overlap.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64.
        stack: Shape (n,), int64.
        ns: Shape (n,), int64, the time of a sample at a moment; -1 if it lasts from start to end.
        runs: Shape (n,), int64: whether the thread ran, 1 or 0; -1 if unknown.
        row: Shape (n,), int64, rows of the table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    stack: I64
    ns: I64
    runs: I64
    row: I64

    def taken(self, rows: I64 | BoolArray) -> _Samples:
        return _Samples(*(column[rows] for column in self))

    def times(self) -> Grouped:
        return Grouped(self.start_ns, self.end_ns, self.thread)


@derived
def has_lines(trace: Trace) -> bool:
    """Return whether samples were recorded that name the program's functions.

    In a program in Python, its native functions are those of libraries.
    """
    table = _running_table(trace)
    return table is not None and (_has_python(trace, table) or not is_python(trace))


def line_hint(trace: Trace) -> str:
    """Return a sentence on how to record the lines of findings, after a space; empty with lines."""
    return "" if has_lines(trace) else f" {hints(trace).lines}"


def lines_at(trace: Trace, spans: Grouped) -> Lines:
    """Return where threads were during some times, whether they ran or not.

    Args:
        trace: The trace.
        spans: Times by thread; those of a thread may not overlap.
    """
    table = "python_sample" if _has_stacks(trace, "python_sample") else _running_table(trace)
    if table is None:
        return Lines((), _length(spans))
    return _lines(trace, table, _samples(trace, table), spans)


def call_lines(trace: Trace, calls: I64) -> Lines:
    """Return the Python lines that make API calls, by the calls' time.

    From the calls' backtraces, or else from samples.

    Args:
        trace: The trace.
        calls: Shape (n,), rows of api_call.
    """
    columns = trace.columns("api_call", "start_ns", "end_ns", "thread_id", "stack_id")
    start, end, thread, stack = (column.filled(NONE)[calls] for column in columns.values())
    spans = Grouped(start, np.maximum(start, end), thread.astype(np.int64))
    if trace.has("stack") and trace.has("frame"):
        frame = leaf_places(trace, stack).frame
        kinds = np.append(trace.columns("frame", "kind")["kind"].values, NONE)[frame]
        frame = np.where(kinds == _PYTHON, frame, NONE).astype(np.int32)
        if (frame >= 0).any():
            ns = (spans.end_ns - spans.start_ns).astype(np.float64)
            return _summed(trace, frame, ns, np.full(len(ns), NONE), _length(spans))
    # The innermost native function of a call is the driver's.
    named = has_lines(trace) and is_python(trace)
    return lines_at(trace, spans) if named else Lines((), _length(spans))


class LineSamples(NamedTuple):
    """Samples of launching threads that have a line.

    Attributes:
        time_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        ns: Shape (n,), int64, the time that each stands for.
        line: Shape (n,), int64, indices of `texts`.
        texts: The lines: one for each function, with its most frequent line.
    """

    time_ns: I64
    thread: I64
    ns: I64
    line: I64
    texts: tuple[str, ...]


def line_samples(trace: Trace) -> LineSamples | None:
    """Return the samples of launching threads with their lines; None if there are none."""
    if not has_lines(trace):
        return None
    table = "python_sample" if _has_stacks(trace, "python_sample") else _running_table(trace)
    if table is None:
        return None
    samples = _samples(trace, table)
    samples = samples.taken(working_threads(trace)[samples.thread])
    frame = leaf_places(trace, samples.stack).frame
    samples, frame = samples.taken(frame >= 0), frame[frame >= 0]
    function = functions(trace).of_frame[frame]
    groups = factorize(function)
    most = []
    for rows in by_group(groups.codes):
        which = factorize(frame[rows])
        most.append(int(which.uniques[np.bincount(which.codes).argmax()]))
    ns = np.where(samples.ns >= 0, samples.ns, samples.end_ns - samples.start_ns)
    texts = tuple(place_texts(trace, np.array(most, np.int64)))
    return LineSamples(samples.start_ns, samples.thread, ns, groups.codes.astype(np.int64), texts)


def running_lines(trace: Trace, spans: Grouped) -> Lines:
    """Return where threads ran during some times.

    Args:
        trace: The trace.
        spans: Times by thread; those of a thread may not overlap.
    """
    table = _running_table(trace)
    if table is None:
        return Lines((), _length(spans))
    samples = _samples(trace, table)
    return _lines(trace, table, samples.taken(samples.runs != 0), spans, is_whole=True)


def blocked_lines(trace: Trace, spans: Grouped) -> Lines:
    """Return where threads were blocked during some times, and on what.

    Args:
        trace: The trace.
        spans: Times by thread; those of a thread may not overlap.
    """
    states = thread_states(trace)
    times = Grouped(states.start_ns, states.end_ns, states.thread_id.astype(np.int64))
    told = cut(spans, times)
    told = _taken(
        told, (states.state[told.row] == State.BLOCKED) & (states.stack_id[told.row] >= 0)
    )
    stack = states.stack_id[told.row].astype(np.int64)
    parts = [(told, stack, _blocking(states)[told.row])]
    if _has_stacks(trace, "python_sample"):
        left = rest(spans, told)
        samples = _samples(trace, "python_sample")
        samples = samples.taken(samples.runs != 1)
        seen = cut(Grouped(left.start_ns, left.end_ns, spans.group[left.span]), samples.times())
        # What the thread is blocked on may be known without a backtrace.
        on = _names_at(trace, Grouped(seen.start_ns, seen.end_ns, samples.thread[seen.row]))
        parts.append((seen, samples.stack[seen.row], on))
    ns = np.concatenate([part.end_ns - part.start_ns for part, _, _ in parts]).astype(np.float64)
    stacks = np.concatenate([part for _, part, _ in parts])
    names = np.concatenate([part for _, _, part in parts])
    return _summed(trace, leaf_places(trace, stacks).frame, ns, names, _length(spans))


def own_blocked_lines(trace: Trace, spans: Grouped) -> Lines:
    """Return where threads were blocked in the program's own functions, without libraries.

    A thread that waits in a library, such as a worker for its next task, may have nothing to do.
    """
    if not _has_stacks(trace, "python_sample"):
        return Lines((), _length(spans))
    samples = _samples(trace, "python_sample")
    samples = samples.taken(samples.runs == 0)
    samples = samples.taken(leaf_places(trace, samples.stack).is_innermost)
    return _lines(trace, "python_sample", samples, spans)


def joined(parts: Sequence[Lines]) -> Lines:
    """Return the lines of several; the evidence is of the part with the most."""
    ns: dict[str, float] = {}
    for line in (line for part in parts for line in part.lines):
        ns[line.text] = ns.get(line.text, 0.0) + line.ns
    ordered = sorted(ns.items(), key=lambda item: (-item[1], item[0]))
    most = max(parts, key=lambda part: part.samples)
    lines = tuple(Line(*item) for item in ordered)
    total = sum(part.ns for part in parts)
    named = sum(part.named_ns for part in parts)
    return Lines(lines, total, named, most.rows, most.samples, most.table)


def _lines(
    trace: Trace, table: str, samples: _Samples, spans: Grouped, *, is_whole: bool = False
) -> Lines:
    """Return the lines of samples in some times.

    Args:
        trace: The trace.
        table: The table that the samples are from.
        samples: The samples that count.
        spans: The times.
        is_whole: Whether samples of moments stand for all of the time.
    """
    total = _length(spans)
    inside = cut(spans, samples.times())
    rows = np.unique(samples.row[inside.row])
    ns = samples.ns[inside.row]
    are_moments = bool((ns >= 0).any())
    if not len(rows) or (are_moments and len(rows) < _FEWEST):
        return Lines((), total)
    ns = np.where(ns >= 0, ns, inside.end_ns - inside.start_ns).astype(np.float64)
    # How many moments fall into short times is chance: their shares are more exact than their sum.
    scale = total / ns.sum() if is_whole and are_moments and ns.sum() else 1.0
    places = leaf_places(trace, samples.stack[inside.row])
    found = _summed(trace, places.frame, ns * scale, np.full(len(ns), NONE), total)
    return found._replace(rows=tuple(rows[:5].tolist()), samples=len(rows), table=table)


def _summed(trace: Trace, frame: I32, ns: F64, name: I64, total_ns: float) -> Lines:
    """Return the lines by function and by what blocks, from the frame of each piece of time."""
    known = np.flatnonzero(frame >= 0)
    if not len(known):
        return Lines((), total_ns)
    frame, ns, name = frame[known], ns[known], name[known]
    columns = trace.columns("frame", "symbol_id", "module_id")
    symbol, module = (columns[key].values[frame] for key in ("symbol_id", "module_id"))
    groups = factorize_rows(symbol, module, name)
    sums = np.bincount(groups.codes, ns, groups.n_groups)
    lines = []
    for group in np.argsort(-sums, kind="stable")[:_KEPT].tolist():
        rows = np.flatnonzero(groups.codes == group)
        which = factorize(frame[rows])
        most = int(which.uniques[np.bincount(which.codes, ns[rows]).argmax()])
        lines.append(Line(_text(trace, most, int(name[rows[0]])), float(sums[group])))
    return Lines(tuple(lines), total_ns, float(ns.sum()))


def _length(spans: Grouped) -> float:
    return float((spans.end_ns - spans.start_ns).sum())


def _text(trace: Trace, frame: int, name: int) -> str:
    """Return the text of a place, with what blocks there instead of the function."""
    if name < 0:
        return place_texts(trace, np.array([frame]))[0]
    blocking = _blocking_text(thread_states(trace), name)
    columns = trace.columns("frame", "symbol_id", "module_id", "line", "kind")
    if columns["kind"].values[frame] != _PYTHON:
        caller = trace.strings.text(int(columns["symbol_id"].values[frame]))
        return f"{blocking}{'' if caller == blocking else f', called by {caller}'}"
    file = trace.strings.text(int(columns["module_id"].values[frame]))
    (line,) = columns["line"].take(np.array([frame])).to_list()
    return place_text(_IN_PYTHON.get(blocking, blocking), file, line)


def _names_at(trace: Trace, spans: Grouped) -> I64:
    """Return what threads were blocked on in the middle of some times, NONE if unknown."""
    states = thread_states(trace)
    middle = (spans.start_ns + spans.end_ns) // 2
    moments = Grouped(middle, middle + 1, spans.group)
    times = Grouped(states.start_ns, states.end_ns, states.thread_id.astype(np.int64))
    at, names = cut(moments, times), np.full(len(middle), NONE)
    is_blocked = states.state[at.row] == State.BLOCKED
    names[at.span] = np.where(is_blocked, _blocking(states)[at.row], NONE)
    return names


def _blocking(states: ThreadStates) -> I64:
    """Return what each state is blocked on: a number of `_blocking_text`, NONE if unknown."""
    is_fault = states.reason == Reason.PAGE_FAULT
    return np.where(is_fault, len(states.names), states.name.astype(np.int64))


def _blocking_text(states: ThreadStates, number: int) -> str:
    return states.names[number] if number < len(states.names) else _PAGE_FAULTS


def _taken(cuts: Cuts, rows: BoolArray) -> Cuts:
    return Cuts(*(column[rows] for column in cuts))


@derived
def _running_table(trace: Trace) -> str | None:
    """Return the table whose samples say where threads run: the first with Python's frames."""
    tables = [table for table in _TABLES if _has_stacks(trace, table)]
    return next((table for table in tables if _has_python(trace, table)), next(iter(tables), None))


def _has_stacks(trace: Trace, table: str) -> bool:
    if not has_samples(trace, table) or not trace.has("stack") or not trace.has("frame"):
        return False
    return bool(trace.columns(table, "stack_id")["stack_id"].is_valid().any())


def _has_python(trace: Trace, table: str) -> bool:
    stack = trace.columns(table, "stack_id")["stack_id"]
    used = np.unique(stack.values[stack.is_valid()])
    frames = leaf_places(trace, used.astype(np.int32)).frame
    kinds = trace.columns("frame", "kind")["kind"].values[frames[frames >= 0]]
    return bool((kinds == _PYTHON).any())


@derived
def _samples(trace: Trace, table: str) -> _Samples:
    """Return the samples of a table that have a thread and a stack."""
    columns = trace.columns(table, "time_ns", "thread_id", "stack_id")
    ns = weights(trace, table)
    rows = np.flatnonzero(columns["thread_id"].is_valid() & columns["stack_id"].is_valid())
    start, thread = columns["time_ns"].values, columns["thread_id"].values.astype(np.int64)
    rows = rows[np.lexsort((start[rows], thread[rows]))]
    start, thread = start[rows], thread[rows]
    if table == "python_sample":
        end, length = start + ns[rows], np.full(len(rows), NONE)
        same = thread[1:] == thread[:-1]
        end[:-1][same] = np.minimum(end[:-1][same], start[1:][same])
        runs = trace.columns(table, "is_running")["is_running"]
        known = np.where(runs.is_valid(), runs.values, NONE).astype(np.int64)[rows]
    else:
        end, length, known = start + 1, ns[rows], np.ones(len(rows), np.int64)
    stack = columns["stack_id"].values[rows].astype(np.int64)
    return _Samples(start, end, thread, stack, length.astype(np.int64), known, rows)
