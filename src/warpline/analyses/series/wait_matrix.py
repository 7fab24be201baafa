"""wait_matrix: how long each rank waits for each other one."""

from __future__ import annotations

import numpy as np

from warpline.derived.collectives.matches import RECORD_HINT, cannot_match
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.columns import rank_columns
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.work.operations import operations
from warpline.ops.group import factorize_rows, group_sums
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "wait_matrix"
TITLE = "Waits of ranks for each other"
FIELDS = (
    Field("rank", Unit.NONE, "The rank that waits, if known.", "Rank"),
    Field("for_rank", Unit.NONE, "The rank that it waits for, if known.", "Waits For"),
    Field("wait_ns", Unit.NS, "Time that it waited.", "Waited (ns)"),
    Field("exposed_ns", Unit.NS, "The part of it without concurrent compute.", "Exposed (ns)"),
    Field("collectives", Unit.COUNT, "Collectives in which it waited.", "Collectives"),
    Field("max_ns", Unit.NS, "Longest wait.", "Max (ns)"),
    Field("pid", Unit.ID, "Process that waits.", "PID"),
    Field("gpu_index", Unit.ID, "Its GPU, as recorded.", "GPU"),
    Field("for_pid", Unit.ID, "Process that it waits for.", "For PID"),
    Field("for_gpu_index", Unit.ID, "The GPU of that process.", "For GPU"),
    Field("event", Unit.NONE, "The kernel with the longest wait.", "Event", is_detail=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=STEP_ARGUMENT,
    missing_hint=RECORD_HINT,
)
def wait_matrix(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """How long each rank waits for each other one in collectives.

    What it measures: For each pair of ranks, the time that the first one waited in collectives in
        which the second one arrived last, in the included steps.
    Why it matters: One column with all the time is one slow rank. Time in all columns is jitter:
        the ranks take turns in being late.
    How it is computed: As in table stragglers: a rank waits from its own arrival until the last
        rank arrives. All of that is attributed to the last one. Pairs without waits are not listed.
        The sum over all pairs is that of the waits in table stragglers.
    Limits: Those of table stragglers.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    waits = collective_waits(run)
    rows = np.flatnonzero(waits.wait_ns > 0)
    rank = waits.rank[rows]
    cause = waits.rank[waits.last][waits.collective[rows]]
    groups = factorize_rows(rank, cause)
    codes, n, first = groups.codes, groups.n_groups, groups.first
    wait = waits.wait_ns[rows]
    longest = np.zeros(n, np.int64)
    by_wait = np.lexsort((-np.arange(len(wait)), wait))
    longest[codes[by_wait]] = by_wait
    matches, work = waits.matches, operations(trace)
    own, other = (
        rank_columns(trace, matches.rank_process[each], matches.rank_device[each])
        for each in (rank[first], cause[first])
    )
    events = work.row[waits.operation[rows[longest]]].tolist()
    values: dict[str, Values] = {
        **own,
        **{f"for_{name}": column for name, column in other.items()},
        "wait_ns": Numbers(group_sums(codes, wait, n)),
        "exposed_ns": Numbers(group_sums(codes, waits.exposed_ns[rows], n)),
        "collectives": Numbers(np.bincount(codes, minlength=n)),
        "max_ns": Numbers(wait[longest]),
        "event": Texts(np.arange(n, dtype=np.int32), [f"kernel:{row}" for row in events]),
    }
    ordered = {field.name: values[field.name] for field in FIELDS}
    name = ":".join((NAME, *arguments))
    key = ("pid", "gpu_index", "for_pid", "for_gpu_index")
    return Result(name, TITLE, FIELDS, ordered, key, matches.notes)
