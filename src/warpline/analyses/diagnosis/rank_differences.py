"""rank_differences: what each rank does in a step, compared with the other ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.ranges.places import path_texts
from warpline.derived.ranks.host_time import range_times
from warpline.derived.ranks.peers import category_sums, working_ranks
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Run, Trace
from warpline.units import Unit

NAME = "rank_differences"
TITLE = "Differences between ranks"
_KINDS = ("GPU busy", "GPU idle", "CPU range", "waiting")
_FOR_RANKS = "for other ranks"
FIELDS = (
    Field("rank", Unit.NONE, "The rank, if known.", "Rank"),
    Field("kind", Unit.NONE, "GPU busy, GPU idle, CPU range, or waiting.", "Kind"),
    Field("name", Unit.NONE, "Category, cause of idle time, or path of ranges.", "Name"),
    Field("more_ns", Unit.NS, "How much more than the other ranks.", "More (ns)", digits=0),
    Field("ns", Unit.NS, "Time per step.", "Per Step (ns)", digits=0),
    Field("others_ns", Unit.NS, "Mean of the other ranks.", "Others (ns)", digits=0),
    Field("number", Unit.COUNT, "Operations or executions per step.", "Number", digits=1),
    Field("others_number", Unit.COUNT, "Mean of the other ranks.", "Others' Number", digits=1),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
)


class _Rows(NamedTuple):
    """Rows of the table: one per rank and thing compared."""

    rank: I64
    kind: I64
    name: I64
    ns: F64
    others_ns: F64
    number: F64
    others_number: F64
    has_number: BoolArray


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=STEP_ARGUMENT,
    missing_hint="profile every rank with --trace=cuda,nvtx and pass all recordings",
)
def rank_differences(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Work, idle time, and CPU time of each rank, compared with the other ranks.

    What it measures: For each rank, the GPU time per step by category, the idle time by cause, the
        CPU time of launching threads by range, and the time in collectives that is waiting for
        other ranks (also a part of category collective), with the mean of the other ranks.
    Why it matters: A late rank delays all others (see table stragglers). It has more work, a slower
        GPU, or a CPU that spends more time somewhere: this table shows where.
    How it is computed: GPU time is divided as in table breakdown. A range counts with all ranges
        nested in it. Times and numbers of the included steps are divided by the rank's steps. The
        largest differences come first.
    Limits: Ranks that wait for a late rank have more time in collectives, in synchronization, and
        in the ranges with these. Ranks with different tasks differ by design, such as stages of a
        pipeline. CPU ranges are compared only if each rank is a process.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    ranks = working_ranks(run)
    if len(ranks) < 2:
        return Skipped(NAME, "the trace has a single rank", "pass the recordings of all ranks")
    rows = _different(_parts(run), _ranges(run), _waiting(run))
    owners = [
        owner_of(trace, process, device)
        for process, device in zip(ranks.process.tolist(), ranks.device.tolist(), strict=True)
    ]
    number = np.array([-1 if owner.rank is None else owner.rank for owner in owners], np.int64)
    names = [
        *TimePart.labels(),
        _FOR_RANKS,
        *(" > ".join(path) for path in path_texts(trace).paths),
    ]
    values: dict[str, Values] = {
        "rank": Numbers(number[rows.rank], number[rows.rank] >= 0),
        "kind": Texts(rows.kind.astype(np.int32), _KINDS),
        "name": Texts(rows.name.astype(np.int32), names),
        "more_ns": Numbers(rows.ns - rows.others_ns),
        "ns": Numbers(rows.ns),
        "others_ns": Numbers(rows.others_ns),
        "number": Numbers(rows.number, rows.has_number),
        "others_number": Numbers(rows.others_number, rows.has_number),
        "pid": Numbers(np.array([owner.pid or 0 for owner in owners], np.int64)[rows.rank]),
        "gpu_index": Numbers(np.array([owner.gpu_index for owner in owners])[rows.rank]),
    }
    key = ("rank", "pid", "gpu_index", "kind", "name")
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, key)


def _different(*parts: _Rows) -> _Rows:
    """Return the rows in which a rank differs from the others, the largest excess first."""
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    rank, name, more = columns[0], columns[2], columns[3] - columns[4]
    differs = np.flatnonzero(np.rint(more) != 0)
    order = differs[np.lexsort((name[differs], rank[differs], -more[differs]))]
    return _Rows._make(column[order] for column in columns)


def _parts(run: Run) -> _Rows:
    """Return the GPU time of each rank by part."""
    ranks, parts = working_ranks(run), step_partition(run)
    ns, number = np.zeros((len(ranks), len(TimePart))), category_sums(run).number
    owners = zip(ranks.process.tolist(), ranks.device.tolist(), strict=True)
    for place, (process, device) in enumerate(owners):
        for rank in parts.ranks:
            if rank.device == device and rank.process in (process, -1):
                steps = max(int(np.count_nonzero(parts.windows.step[rank.windows] >= 0)), 1)
                ns[place] += parts.total(rank) / steps
    others_ns, others_number = (
        (values.sum(axis=0) - values) / (len(ranks) - 1) for values in (ns, number)
    )
    at, part = np.nonzero((ns > 0) | (others_ns > 0))
    is_busy = part < len(BUSY)
    return _Rows(
        rank=at,
        kind=np.where(is_busy, 0, 1),
        name=part,
        ns=ns[at, part],
        others_ns=others_ns[at, part],
        number=number[at, part],
        others_number=others_number[at, part],
        has_number=is_busy & (part != TimePart.COLLECTIVE),
    )


def _ranges(run: Run) -> _Rows:
    """Return the CPU time of each rank by path of ranges."""
    ranks, times, n_paths = working_ranks(run), range_times(run), len(path_texts(run.trace).paths)
    each = np.maximum(ranks.steps, 1)[times.rank]
    own = [values / each for values in (times.ns, times.number)]
    others = [
        (np.bincount(times.path, values, n_paths)[times.path] - values) / (len(ranks) - 1)
        for values in own
    ]
    return _Rows(
        rank=times.rank,
        kind=np.full(len(times.rank), 2),
        name=times.path + len(TimePart) + 1,
        ns=own[0],
        others_ns=others[0],
        number=own[1],
        others_number=others[1],
        has_number=np.ones(len(times.rank), np.bool_),
    )


def _waiting(run: Run) -> _Rows:
    """Return how long each rank waits in collectives that are matched with other ranks."""
    ranks, waits = working_ranks(run), rank_waits(run)
    ns = np.zeros(len(ranks))
    for place, (process, device) in enumerate(zip(ranks.process, ranks.device, strict=True)):
        own = (waits.process == process) & (waits.device == device)
        ns[place] = float(waits.wait_ns[own].sum()) / max(int(ranks.steps[place]), 1)
    none = np.zeros(len(ranks))
    return _Rows(
        rank=np.arange(len(ranks)),
        kind=np.full(len(ranks), _KINDS.index("waiting")),
        name=np.full(len(ranks), len(TimePart)),
        ns=ns,
        others_ns=(ns.sum() - ns) / (len(ranks) - 1),
        number=none,
        others_number=none,
        has_number=none > 0,
    )
