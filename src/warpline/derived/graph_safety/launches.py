"""Whether steps launch the same operations with the same sizes, and where they first differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.graph_safety import kinds
from warpline.derived.graph_safety.calls import OffendingCalls
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.steps.times import steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize_rows
from warpline.trace import Run, Trace

# What a graph fixes of each operation, beside its name.
_SIZES = {
    "kernel": (
        *(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"),
        "dynamic_shared_bytes",
    ),
    "memcpy": ("bytes", "kind"),
    "memset": ("bytes", "value"),
    "graph_launch": ("graph_exec_id",),
}
_UNKNOWN = -1
_LEAST_STEPS = 3
_MOST_WARMING = 0.25  # of the steps: those at the beginning may differ


class _Step(NamedTuple):
    """A step: what it launches, by thread and call."""

    operation: I64
    what: I32
    size: I32


@derived
def differing_launches(run: Run) -> tuple[OffendingCalls, ...]:
    """Return where steps launch something else than most steps of their loop do.

    Of each such step, the call of the first operation that differs. The first steps may differ:
    they set up what the others use.
    """
    run_steps, found = steps(run), defaultdict[bool, list[int]](list)
    call = operations(run.trace).call
    for loop in np.unique(run_steps.loop[run_steps.included]).tolist():
        own = {
            step: each
            for step, each in _steps(run).items()
            if run_steps.included[step] and run_steps.loop[step] == loop
        }
        same_as = Counter(each.size.tobytes() for each in own.values())
        if not same_as:
            continue
        most = same_as.most_common(1)[0][0]
        usual = next(each for each in own.values() if each.size.tobytes() == most)
        others = [step for step, each in own.items() if each.size.tobytes() != most]
        for step in _without_warming(others, list(own)):
            is_size = np.array_equal(own[step].what, usual.what)
            at = _first_difference(own[step], usual, is_size=is_size)
            if at >= 0:
                found[is_size].append(int(call[at]))
    kind_of = {True: kinds.CHANGING_SHAPES, False: kinds.CHANGING_WORK}
    return tuple(
        OffendingCalls(kind_of[is_size], np.sort(np.array(calls, np.int64)))
        for is_size, calls in sorted(found.items())
    )


def enough_steps(run: Run) -> bool:
    """Return whether a loop has enough steps to see whether they are alike."""
    run_steps = steps(run)
    number = np.bincount(run_steps.loop[run_steps.included], minlength=1)
    return bool(number.max() >= _LEAST_STEPS)


def launches_per_step(run: Run) -> float:
    """Return the median number of operations that an included step launches."""
    included = steps(run).included
    counts = [len(each.what) for step, each in _steps(run).items() if included[step]]
    return float(np.median(counts)) if counts else 0.0


@derived
def _steps(run: Run) -> dict[int, _Step]:
    """Return the operations of each step: by thread, then in the order of their calls."""
    sequences, size = launch_sequences(run), _sizes(run.trace)
    if not len(sequences.operation):
        return {}
    call = operations(run.trace).call[sequences.operation]
    thread = run.trace.columns("api_call", "thread_id")["thread_id"].values[call]
    result = {}
    for step, rows in sequences.of_steps():
        order = np.argsort(thread[rows], kind="stable")
        places = sequences.operation[rows][order]
        # A size without the name of the operation would be equal for different kernels.
        both = size[places] * (int(sequences.what.max()) + 1) + sequences.what[rows][order]
        result[step] = _Step(places, sequences.what[rows][order], both)
    return result


@derived
def _sizes(trace: Trace) -> I64:
    """Return a number for each operation, equal for operations of the same sizes."""
    work = operations(trace)
    numbers = np.zeros(len(work), np.int64)
    for table, names in _SIZES.items():
        places = work.of_table(table)
        if len(places):
            columns = trace.columns(table, *names)
            row = work.row[places]
            parts = (columns[name].filled(_UNKNOWN)[row].astype(np.int64) for name in names)
            numbers[places] = factorize_rows(*parts).codes
    return numbers


def _without_warming(others: list[int], all_steps: list[int]) -> list[int]:
    """Return the steps without those with which the loop begins, if these are a few."""
    leading = 0
    while leading < len(others) and others[leading] == all_steps[leading]:
        leading += 1
    return others[leading:] if leading <= _MOST_WARMING * len(all_steps) else others


def _first_difference(step: _Step, usual: _Step, *, is_size: bool) -> int:
    """Return the first operation of a step that differs from the usual ones, -1 for none."""
    own, other = (each.size if is_size else each.what for each in (step, usual))
    common = min(len(own), len(other))
    differs = np.flatnonzero(own[:common] != other[:common])
    at = int(differs[0]) if len(differs) else common
    if at >= len(own):  # it ends early: its last operation is the closest place
        at = len(own) - 1
    return int(step.operation[at]) if at >= 0 else _UNKNOWN


assert set(_SIZES) == set(DEVICE_TABLES)
