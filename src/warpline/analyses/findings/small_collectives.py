"""small-collectives: many small collectives, one after another."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.collectives.runs import SmallRuns, small_runs
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, DropOperations, ScaleOperations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "small-collectives"
TITLE = "Small collectives run one by one"

_LEAST = 16  # per step
_LEAST_SHARE = 0.02  # of the step


@rule(name=NAME, title=TITLE)
def small_collectives(run: Run) -> list[Finding]:
    """Small collectives that are launched one after another.

    What it finds: At least 16 small collectives per step that follow each other, if they or their
        launches take at least 2% of the step.
    Why it matters: A small collective takes as long as an empty one: the ranks' synchronization
        takes the time, not the data. One collective of all the data takes little longer than one
        of them.
    How it is found: Messages of at most 256 KiB or, without recorded sizes, collectives of at most
        20 us without waits for other ranks; of one kind, in one step, with at most two operations
        launched in between. Time is that of their kernels without waits, or of their launches on
        the CPU, whichever is longer.
    What to do: Put the data of several into one collective.
    Limits: Collectives with computations in between are not counted, as each may need the result of
        the one before. In a recording of a single rank without sizes, collectives that wait for
        other ranks are not counted.
    Source: NCCL's documentation of group calls; measured on a program with one all-reduce per
        tensor and with buckets.
    """
    scope, runs = step_scope(run), small_runs(run)
    is_small = np.zeros(len(scope.operations), np.bool_)
    is_small[runs.operation] = True
    number = scope.number_of(is_small)
    if not scope.has_steps or number < _LEAST:
        return []
    facts = scope.operations_on_devices(runs.operation, runs.moving_ns)
    moving = max((fact.ns / max(fact.steps, 1) for fact in facts), default=0.0)
    launching = _launching_ns(scope, runs)
    share = scope.share(max(moving, launching))
    if share < _LEAST_SHARE:
        return []
    many = f"{plural(round(number), 'small collective')}{scope.each}"
    takes = f"take {format_ns(moving)} on the GPU and {format_ns(launching)} of CPU time"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"{many} run one by one",
            f"{many} follow each other. They {takes} ({format_ratio(share)} of the step), mostly"
            " latency: their data is small.",
            (scope.show_operations(f"{many} in {format_ns(moving)} without waits", is_small),),
            "Put the data of several into one collective: larger buckets in"
            " DistributedDataParallel (bucket_cap_mb), one flat tensor for gradients or metrics,"
            " or torch.distributed.all_reduce_coalesced.",
            "Profile again: `warpline stats -r collective_waits` shows fewer collectives.",
            fix_cuda="Pack small buffers into one, or enclose the calls in ncclGroupStart and"
            " ncclGroupEnd.",
            fix_in={
                "jax": "Let XLA combine collectives: raise"
                " --xla_gpu_all_reduce_combine_threshold_bytes (and those of all-gather and"
                " reduce-scatter) in XLA_FLAGS, or reduce one pytree of all values."
            },
            changes=_changes(runs),
            share=share,
            on_devices=facts,
        )
    ]


def _changes(runs: SmallRuns) -> tuple[Change, ...]:
    """Return what one collective per run changes: the last one, when all data is ready.

    It takes the time of the shortest, and that of the others beyond it.
    """
    first = runs.first
    length = np.maximum(runs.moving_ns, 1)
    least = np.minimum.reduceat(length, first)
    number = np.diff(np.append(first, len(length)))
    together = least + np.add.reduceat(length, first) - number * least
    is_last = np.diff(runs.run, append=-1) != 0
    factor = float(np.median(together / length[is_last]))
    return (
        DropOperations(runs.operation[~is_last]),
        ScaleOperations(runs.operation[is_last], Estimate(min(factor, 1.0), factor, 2 * factor)),
    )


def _launching_ns(scope: StepScope, runs: SmallRuns) -> float:
    """Return the CPU time per step from the first to the last launch of each run."""
    calls = scope.run.trace.columns("api_call", "start_ns")["start_ns"].values
    call = operations(scope.run.trace).call[runs.operation]
    since: I64 = np.diff(calls[call], prepend=calls[call[:1]])
    is_first: BoolArray = np.diff(runs.run, prepend=-1) != 0
    return scope.call_ns_of(call, np.where(is_first, 0, np.maximum(since, 0)))
