"""The rows of threads that were sampled: what each did, and the samples with their stacks.

A sample is drawn for the time that it represents, or until the next one of its thread. Its links
are ``stack``, the place of its stack in the tree of all stacks of samples, which the head has, and
``weight``, all of the time that it represents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.flame.profiles import LabelKind, Labels, Profile, profile
from warpline.derived.flame.weighted import Choice, Of
from warpline.derived.host.samples import has_samples
from warpline.derived.host.states import State, thread_states
from warpline.ops.arrays import I32, I64
from warpline.ops.stacks import Stacks
from warpline.ops.tiling import by_group
from warpline.trace import Trace
from warpline.viewer.columns import Packed, plain
from warpline.viewer.container import BlockWriter
from warpline.viewer.names import Names, category
from warpline.viewer.rows import Events, Link, Row, narrow

STACK, WEIGHT = "stack", "weight"


class _Samples(NamedTuple):
    """A table of samples: which kind of stacks it has, and its rows on the timeline."""

    table: str
    of: Of
    key: str
    label: str


_TABLES = (
    _Samples("cpu_sample", "cpu", "cpu-samples", "CPU samples"),
    _Samples("python_sample", "python", "python-samples", "Python samples"),
)
_CATEGORIES = {LabelKind.PYTHON: "python"}
_SAMPLE = "sample"
# What a thread did: the name of its event and of its category.
_STATES = {
    State.RUNNING: ("running", "running"),
    State.RUNNABLE: ("runnable, no CPU core", "runnable"),
    State.BLOCKED: ("blocked", "blocked"),
}


def sample_rows(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the rows of all threads, those of one thread in display order.

    States of threads are shown if they are from samples or context switches. Those from OS calls
    alone would repeat the rows of these.
    """
    if _shown(trace) or (trace.has("sched_event") and trace.row_count("sched_event")):
        yield from _states(trace, names)
    first = 0
    for table in _shown(trace):
        found = profile(trace, Choice(table.of))
        yield from _rows(found, names, table, first)
        first += len(found.stacks)


class SampleStacks:
    """The tree of the stacks of all samples, as the head describes it.

    Args:
        trace: Read once, at first.
        names: Gets the names of all frames.
    """

    def __init__(self, trace: Trace, names: Names) -> None:
        self._columns: list[Packed] = []
        self._count = 0
        parts = [profile(trace, Choice(table.of)) for table in _shown(trace)]
        if not parts:
            return
        callers = [_distances(part.stacks) for part in parts]
        numbers = [_names(part.labels, names)[part.stacks.frame] for part in parts]
        self._count = sum(map(len, callers))
        self._columns = [
            plain("caller", np.concatenate(callers)),
            plain("name", np.concatenate(numbers).astype(np.int64)),
        ]

    def write(self, writer: BlockWriter) -> dict[str, Any] | None:
        """Add the tree, and return its description; None without samples."""
        if not self._count:
            return None
        block, offset = writer.append("stacks", self._columns)
        described = [column.head() for column in self._columns]
        return {"block": block, "offset": offset, "count": self._count, "columns": described}


def _distances(stacks: Stacks) -> I64:
    """Return how far above its caller each stack is; 0 without one."""
    return np.where(stacks.depth > 0, np.arange(len(stacks)) - stacks.parent, 0)


def _shown(trace: Trace) -> list[_Samples]:
    return [each for each in _TABLES if has_samples(trace, each.table)]


def _rows(found: Profile, names: Names, table: _Samples, first: int) -> Iterator[Row]:
    """Yield the row of samples of each thread; those without a thread are left out."""
    of_label = _names(found.labels, names)
    node = found.node.astype(np.int64)
    for rows in by_group(found.thread):
        thread = int(found.thread[rows[0]]) if len(rows) else -1
        if thread < 0:
            continue
        ordered = rows[np.argsort(found.time_ns[rows], kind="stable")]
        start = found.time_ns[ordered]
        end = start + found.weight_ns[ordered]
        end[:-1] = np.minimum(end[:-1], start[1:])
        always = np.ones(len(ordered), np.bool_)
        links = {
            STACK: Link(narrow(first + node[ordered]), always),
            WEIGHT: Link(found.weight_ns[ordered], always),
        }
        events = Events(start, end, of_label[found.stacks.frame[node[ordered]]], links=links)
        owner = f"thread{thread}"
        yield Row(
            f"{owner}/{table.key}", owner, table.label, "sample", thread=thread, events=events
        )


def _names(labels: Labels, names: Names) -> I32:
    """Return the number of each label's name."""
    numbers = [
        names.add(labels.text(place), category(_CATEGORIES.get(LabelKind(kind), _SAMPLE)))
        for place, kind in enumerate(labels.kind)
    ]
    return np.array(numbers, np.int32)


def _states(trace: Trace, names: Names) -> Iterator[Row]:
    """Yield the states of each thread; unknown times are gaps."""
    states = thread_states(trace)
    name = np.zeros(len(states.state), np.int32)
    for state, (text, kind) in _STATES.items():
        own = states.state == state
        name[own] = names.add(text, category(kind))
        for place in np.unique(states.name[own & (states.name >= 0)]).tolist():
            in_call = own & (states.name == place)
            name[in_call] = names.add(f"{text}: {states.names[place]}", category(kind))
    known = np.flatnonzero(states.state != State.NOT_RECORDED)
    for rows in by_group(states.thread_id[known]):
        own = known[rows]
        if not len(own):
            continue
        thread = int(states.thread_id[own[0]])
        events = Events(states.start_ns[own], states.end_ns[own], name[own])
        owner = f"thread{thread}"
        yield Row(f"{owner}/state", owner, "thread state", "thread", thread=thread, events=events)
