"""Labels that group operator calls: input shapes, module, source lines.

A backward operator and all calls inside it have the module and source lines of the forward operator
with the same sequence number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.operators.calls import OPERATOR, OperatorCalls, operator_calls, operator_rows
from warpline.derived.python_stacks import python_stacks
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.join import Lookup, lookup_rows
from warpline.ops.tree import enclosing, nest
from warpline.schema.labels import FRAME_KINDS
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import ColumnData, Trace
from warpline.trace.annotated_operators import is_backward_name

SHOWN_FRAMES = 5

_FUNCTION = next(value for value, label in FRAME_KINDS.items() if label == "Function")
_NOTHING = -1
_SPACES = lazy_pattern(r"(,?)\s+")


def _one_or_none(match: re.Match[str]) -> str:
    return ", " if match[1] else ""


class Labels(NamedTuple):
    """A text for each call of `operator_calls`.

    Attributes:
        codes: Shape (calls,), int32, positions in `texts`; -1 if there is none.
        texts: The distinct texts.
    """

    codes: I32
    texts: tuple[str, ...]


class ForwardOperators(NamedTuple):
    """Backward operators and the forward operators that created them.

    Attributes:
        backward: Shape (n,), int64, rows of `op`.
        forward: Shape (n,), int64, rows of `op`.
    """

    backward: I64
    forward: I64


class _Shown(NamedTuple):
    """Format of a path of frames: all frames outermost first, or the first few innermost first."""

    between: str
    at_most: int | None


class _Paths(NamedTuple):
    """The distinct paths of frames.

    Attributes:
        of_frame: Shape (frames,), int64, the path of each.
        outer: Shape (paths,), int64, the path without its last frame; -1 for a single frame.
        name: Shape (paths,), int64, the last frame's name, a row of the string pool.
    """

    of_frame: I64
    outer: I64
    name: I64


class _Frames(NamedTuple):
    """Named, nested intervals of CPU threads."""

    start: I64
    end: I64
    thread: I64
    name: I64


@derived
def shapes_of_calls(trace: Trace) -> Labels:
    """Return the shapes of the inputs of each call, as one line of JSON."""
    shapes = _recorded(trace, "input_shapes_id")
    # Some files break their JSON into several lines.
    return _distinct(shapes.codes, tuple(_SPACES.sub(_one_or_none, text) for text in shapes.texts))


@derived
def modules_of_calls(trace: Trace) -> Labels:
    """Return the modules around each call, outermost first, separated by slashes.

    They are as recorded with the operator, otherwise the modules open on its thread at its start.
    """
    return _label(trace, "module_id", _modules(trace), _Shown("/", None))


@derived
def stacks_of_calls(trace: Trace) -> Labels:
    """Return the Python functions around each call, innermost first, at most `SHOWN_FRAMES`.

    They are as recorded with the operator, otherwise the functions, except built-in ones, on its
    thread's stack at its start, otherwise those of the first CUDA API call in it with a Python
    backtrace.
    """
    shown = _Shown("; ", SHOWN_FRAMES)
    return _label(trace, "stack_id", _functions(trace), shown, _stacks_of_launches(trace))


def _label(
    trace: Trace, column: str, frames: _Frames, shown: _Shown, others: Labels | None = None
) -> Labels:
    """Return labels as recorded, else of the frames around each call, else others."""
    calls = operator_calls(trace)
    recorded = _recorded(trace, column)
    inside = enclosing(
        calls.start_ns,
        frames.start,
        frames.end,
        point_group=calls.thread,
        group=frames.thread,
    )
    paths = _paths(frames)
    of_call = np.full(len(calls), _NOTHING)
    of_call[inside.found] = paths.of_frame[inside.row[inside.found]]
    used, places = np.unique(of_call[inside.found], return_inverse=True)
    of_call[inside.found] = places.reshape(-1) + len(recorded.texts)
    texts = (*recorded.texts, *(_text(trace, paths, path, shown) for path in used.tolist()))
    own = np.where(recorded.codes >= 0, recorded.codes, of_call)
    if others is not None:
        own = np.where((own < 0) & (others.codes >= 0), others.codes + len(texts), own)
        texts = (*texts, *others.texts)
    return _distinct(_of_forward(trace, calls, own), texts)


def _stacks_of_launches(trace: Trace) -> Labels:
    """Return the Python stack of the first CUDA API call in each call that has one."""
    calls, stacks = operator_calls(trace), python_stacks(trace)
    first = np.full(len(calls), len(stacks.codes))
    rows = np.flatnonzero(stacks.codes >= 0)
    if len(rows) and len(calls):
        columns = trace.columns("api_call", "start_ns", "thread_id")
        time, thread = (data.values[rows].astype(np.int64) for data in columns.values())
        around = calls.among(np.arange(len(calls)), time, thread)
        # Rows are in the order of time.
        np.minimum.at(first, around.row[around.found], rows[around.found])
        nesting = calls.nesting
        for depth in range(int(nesting.depth.max()), 0, -1):
            inner = np.flatnonzero(nesting.depth == depth)
            np.minimum.at(first, nesting.parent[inner], first[inner])
    codes = np.append(stacks.codes, np.int32(_NOTHING))[first]
    texts = ("; ".join(text.splitlines()[:SHOWN_FRAMES]) for text in stacks.texts)
    return Labels(codes, tuple(texts))


def _distinct(codes: I64 | I32, texts: tuple[str, ...]) -> Labels:
    """Return codes of distinct texts, in the order of the texts."""
    distinct = tuple(sorted(set(texts)))
    place = {text: number for number, text in enumerate(distinct)}
    numbers = np.array([*(place[text] for text in texts), _NOTHING], np.int32)
    return Labels(numbers[codes], distinct)


def _recorded(trace: Trace, column: str) -> Labels:
    calls = operator_calls(trace)
    codes = np.full(len(calls), _NOTHING, np.int32)
    own = calls.kind == OPERATOR
    ids: ColumnData = trace.columns("op", column)[column]
    values, valid = ids.values[calls.row[own]], ids.is_valid()[calls.row[own]]
    used = distinct_values(values[valid])
    codes[own] = np.where(valid, np.searchsorted(used, values), _NOTHING)
    return Labels(codes, tuple(trace.strings.texts(used.tolist())))


def _modules(trace: Trace) -> _Frames:
    if not trace.has("range"):
        return _no_frames()
    columns = trace.columns("range", "domain_id", "name_id")
    domain = trace.strings.find(MODULE_DOMAIN)
    if domain is None:
        return _no_frames()
    domains, named = columns["domain_id"], columns["name_id"].is_valid()
    return _frames(trace, "range", domains.is_valid() & (domains.values == domain) & named)


def _functions(trace: Trace) -> _Frames:
    if not trace.has("python_frame"):
        return _no_frames()
    kinds = trace.columns("python_frame", "kind")["kind"].values
    return _frames(trace, "python_frame", kinds == _FUNCTION)


def _no_frames() -> _Frames:
    return _Frames(*(np.zeros(0, np.int64) for _ in _Frames._fields))


def _frames(trace: Trace, table: str, chosen: BoolArray) -> _Frames:
    names = ("start_ns", "end_ns", "thread_id", "name_id")
    columns = trace.columns(table, *names)
    start, end, thread, name = (columns[n].filled(0)[chosen].astype(np.int64) for n in names)
    return _Frames(start, np.maximum(start, end), thread, name)


def _paths(frames: _Frames) -> _Paths:
    """Number the paths of frames, one nesting level at a time."""
    nesting = nest(frames.start, frames.end, frames.thread)
    order = np.argsort(nesting.depth, kind="stable")
    deepest = int(nesting.depth.max(initial=-1))
    bounds = np.searchsorted(nesting.depth[order], np.arange(deepest + 2))
    of_frame = np.full(len(order), _NOTHING)
    outer, name = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    n_paths = 0
    for level in range(deepest + 1):
        rows = order[bounds[level] : bounds[level + 1]]
        around = of_frame[nesting.parent[rows]] if level else np.full(len(rows), _NOTHING)
        groups = factorize_rows(around, frames.name[rows])
        of_frame[rows] = groups.codes + n_paths
        outer.append(around[groups.first])
        name.append(frames.name[rows][groups.first])
        n_paths += groups.n_groups
    return _Paths(of_frame, np.concatenate(outer), np.concatenate(name))


def _text(trace: Trace, paths: _Paths, path: int, shown: _Shown) -> str:
    names: list[int] = []
    while path != _NOTHING and (shown.at_most is None or len(names) < shown.at_most):
        names.append(int(paths.name[path]))
        path = int(paths.outer[path])
    return shown.between.join(trace.strings.texts(names if shown.at_most else names[::-1]))


def _of_forward(trace: Trace, calls: OperatorCalls, label: I64) -> I64:
    """Return labels, with those of backward operators and their callees from forward operators."""
    backward, forward = _backward_links(trace, calls)
    if not len(backward):
        return label
    inside = enclosing(
        calls.start_ns,
        calls.start_ns[backward],
        calls.end_ns[backward],
        point_group=calls.thread,
        group=calls.thread[backward],
    )
    linked = label[forward][inside.row]
    return np.where(inside.found & (linked >= 0), linked, label)


def _backward_links(trace: Trace, calls: OperatorCalls) -> tuple[I64, I64]:
    """Return the calls of backward operators and of the forward operators that created them."""
    operators = np.flatnonzero(calls.kind == OPERATOR)
    links = forward_operators(trace)
    own = calls.row[operators]
    backward, forward = (operators[np.searchsorted(own, rows)] for rows in links)
    return backward, forward


@derived
def forward_operators(trace: Trace) -> ForwardOperators:
    """Return the forward operator that created each backward operator, where it is certain.

    It is the last forward operator of the process to start with the same sequence number, provided
    that all of them ran on one thread: sequence numbers are per thread.
    """
    rows = operator_rows(trace)
    keys = ("sequence", "forward_thread", "process_id", "thread_id", "start_ns")
    columns = {key: column.take(rows) for key, column in trace.columns("op", *keys).items()}
    known = columns["sequence"].is_valid()
    number, process, thread, start = (columns[n].values for n in (keys[0], *keys[2:]))
    is_backward = (columns["forward_thread"].filled(0) != 0) | _is_named_backward(trace, rows)
    ahead = np.flatnonzero(known & ~is_backward)
    ahead = ahead[np.argsort(thread[ahead], kind="stable")]
    back = np.flatnonzero(known & is_backward)
    wanted, table = (process[back], number[back]), (process[ahead], number[ahead])
    first: Lookup = lookup_rows(wanted, table, duplicates="first")
    last: Lookup = lookup_rows(wanted, table, duplicates="last")
    both = np.flatnonzero(last.found)
    maker, other, made = ahead[last.row[both]], ahead[first.row[both]], back[both]
    is_sure = (thread[maker] == thread[other]) & (start[maker] < start[made])
    return ForwardOperators(rows[made[is_sure]], rows[maker[is_sure]])


def _is_named_backward(trace: Trace, rows: I64) -> BoolArray:
    """Return which operators are nodes of the backward pass by their names.

    Those that were NVTX ranges do not say which thread ran the forward operator.
    """
    columns = trace.columns("op", "name_id", "forward_thread")
    names, unsaid = columns["name_id"].values[rows], ~columns["forward_thread"].is_valid()[rows]
    distinct, codes = np.unique(names, return_inverse=True)
    named = [is_backward_name(text) for text in trace.strings.texts(distinct.tolist())]
    is_one: BoolArray = np.array(named, np.bool_)[codes] & unsaid
    return is_one
