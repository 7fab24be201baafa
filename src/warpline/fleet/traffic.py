"""What sets of ranks communicate in a step: how often, when, and how much of it is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.fleet.collectives import SHARES
from warpline.fleet.jobs import Job, steps_of
from warpline.fleet.matching import Group, Member
from warpline.ops.arrays import F64, I64, BoolArray

_MOST_STEPS = 16  # examined


class Traffic(NamedTuple):
    """The collectives of one set of ranks, as one of its ranks sees them.

    Attributes:
        ranks: Places in the job, ascending.
        calls: Collectives per step, by operation.
        gap: The longest time without any, as a share of the step less their exposed time; it may go
            on in the next step.
        early: Share of them before the middle of the sends and receives of a step; None without.
        gathers_first: All-gathers before the first reduce-scatter of a step.
        scatter_run: Reduce-scatters that follow each other without an all-gather: the most, as a
            share of all.
        hidden: Share of their time in which the GPU computed.
        sizes: Number of different sizes of all-to-alls.
        labels: Names that the program gave the communicators.
        is_named: Whether communicators are recorded. Else ranks of groups in step with each other
            look like one group.
    """

    ranks: tuple[int, ...]
    calls: Mapping[str, float]
    gap: float
    early: float | None
    gathers_first: float
    scatter_run: float
    hidden: float
    sizes: int
    labels: tuple[str, ...]
    is_named: bool


def traffic_of(job: Job, groups: Sequence[Group]) -> list[Traffic]:
    """Return the traffic of each set of ranks, the largest sets first; all-to-alls apart."""
    of_set: dict[tuple[tuple[int, ...], bool], list[Group]] = {}
    for group in groups:
        ranks = tuple(member.rank for member in group.members)
        of_set.setdefault((ranks, group.operation == "AllToAll"), []).append(group)
    order = sorted(of_set, key=lambda key: (-len(key[0]), key))
    return [_traffic(job, key[0], of_set[key]) for key in order]


class _Rows(NamedTuple):
    """Collectives of a rank in steps that count, by start; shape (n,) each."""

    operation: I64
    step: I64
    start_ns: I64
    end_ns: I64
    hidden: F64


def _traffic(job: Job, ranks: tuple[int, ...], groups: Sequence[Group]) -> Traffic:
    names = sorted({group.operation for group in groups})
    rows = _rows(job, [(names.index(group.operation), group.members[0]) for group in groups])
    steps = np.unique(rows.step)[:_MOST_STEPS].tolist()
    every = [np.flatnonzero(rows.step == step) for step in steps]
    count = max(len(every), 1)
    number = np.bincount(rows.operation[np.isin(rows.step, steps)], minlength=len(names))
    gathers, scatters = (
        np.isin(rows.operation, [names.index(name) for name in wanted if name in names])
        for wanted in (("AllGather", "AllGatherV"), ("ReduceScatter",))
    )
    length = rows.end_ns - rows.start_ns
    kinds = job.ranks[ranks[0]].kinds
    names_of = {(group.operation, group.communicator) for group in groups}
    own = [kind for kind in kinds if (kind.operation, kind.communicator) in names_of]
    return Traffic(
        ranks,
        {name: float(each) / count for name, each in zip(names, number, strict=True) if each},
        _median([_gap(job, ranks[0], rows, chosen) for chosen in every], 1.0),
        _early(job, ranks[0], rows, every),
        _median([_before(gathers[chosen], scatters[chosen]) for chosen in every], 0.0),
        _median([_longest(gathers[chosen], scatters[chosen]) for chosen in every], 0.0),
        float((length * rows.hidden).sum() / max(float(length.sum()), 1.0)),
        len({kind.bytes for kind in own if kind.operation == "AllToAll"}),
        tuple(sorted({text for kind in own for text in (kind.label, kind.communicator) if text})),
        all(kind.is_named for kind in own),
    )


def _median(values: Sequence[float], otherwise: float) -> float:
    return float(np.median(values)) if values else otherwise


def _rows(job: Job, members: Sequence[tuple[int, Member]]) -> _Rows:
    parts = []
    for operation, member in members:
        rows = job.ranks[member.rank].collectives.taken(member.rows)
        start = rows.start_ns
        step = steps_of(job, member.rank, start).astype(np.int64)
        hidden = rows.hidden.mean(axis=1) / SHARES if rows.total else np.zeros(0)
        parts.append((np.full(rows.total, operation, np.int64), step, start, rows.end_ns, hidden))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[2], kind="stable")
    order = order[columns[1][order] >= 0]
    return _Rows(*(column[order] for column in columns))


def _window(job: Job, rank: int, step: int) -> tuple[int, int]:
    windows = job.ranks[rank].windows
    row = int(np.flatnonzero(job.window_step[rank] == step)[0])
    return int(windows.start_ns[row]), int(windows.end_ns[row])


def _gap(job: Job, rank: int, rows: _Rows, chosen: I64) -> float:
    low, high = _window(job, rank, int(rows.step[chosen[0]]))
    start, end = rows.start_ns[chosen], np.maximum.accumulate(rows.end_ns[chosen])
    around = (int(start[0]) - low) + max(high - int(end[-1]), 0)
    between = int((start[1:] - end[:-1]).max(initial=0))
    exposed = float(((rows.end_ns - rows.start_ns) * (1 - rows.hidden))[chosen].sum())
    return min(max(around, between) / max(high - low - exposed, 1.0), 1.0)


def _early(job: Job, rank: int, rows: _Rows, every: Sequence[I64]) -> float | None:
    """Return the share of collectives before the middle of the step's sends and receives."""
    sent = job.ranks[rank].exchanges.start_ns
    if not len(sent):
        return None
    step = steps_of(job, rank, sent)
    shares = []
    for chosen in every:
        own = sent[step == rows.step[chosen[0]]]
        if len(own):
            shares.append(float((rows.start_ns[chosen] < np.median(own)).mean()))
    return _median(shares, 0.0) if shares else None


def _before(gathers: BoolArray, scatters: BoolArray) -> float:
    first = np.flatnonzero(scatters)
    return float(np.count_nonzero(gathers[: first[0]])) if len(first) else 0.0


def _longest(gathers: BoolArray, scatters: BoolArray) -> float:
    """Return how many reduce-scatters follow each other at most, as a share of all."""
    total = np.count_nonzero(scatters)
    if not total:
        return 0.0
    return float(np.bincount(np.cumsum(gathers)[scatters]).max()) / total
