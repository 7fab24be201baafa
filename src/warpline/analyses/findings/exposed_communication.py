"""exposed-communication: communication is not overlapped with compute."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import ranks_of
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.advice import overlap_advice
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.result import Evidence, Finding, OnDevice, rule
from warpline.result.changes import OverlapCollectives
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "exposed-communication"
TITLE = "Communication is not overlapped with compute"

_OVERLAPPED_RATIO = 0.3  # of communication: above this, it counts as overlapped
_BUCKETS = 8
# Share of a collective's time that moves data where only one rank is in the trace. The rest may be
# waiting for other ranks.
_ALONE = Estimate(0.1, 1.0, 1.0)
_MOST_BETWEEN = 2  # operations that prepare or scale a collective's data


@rule(name=NAME, title=TITLE)
def exposed_communication(run: Run) -> list[Finding]:
    """Collectives that run while the GPU computes nothing.

    What it finds: Exposed communication of at least 5% of the step, or at least 5% spent by the
        CPU on launching collectives one by one, where less than 30% of communication is
        overlapped with compute.
    Why it matters: A layer's gradients can be reduced while those of earlier layers are computed.
        This hides most of the communication.
    How it is found: From the overlap of collective kernels with compute (see overlap). With
        several ranks in the trace, waits for the last rank are excluded (see straggler).
    What to do: Communicate in a few buckets, each as soon as its data is ready. The advice depends
        on the collective that takes most of the time.
    Limits: In a recording of a single rank, a collective's time includes waiting for other ranks.
        Open the recordings of all ranks together to see which one is late.
    Source: PyTorch's documentation of DistributedDataParallel; measured on a program with and
        without overlap.
    """
    scope, collectives = step_scope(run), _collectives(run.trace)
    sums, waits = step_overlaps(run).ns.sum(axis=0), rank_waits(run)
    waiting = float(waits.exposed_wait_ns.sum()) / scope.count
    exposed = float(sums[OverlapKind.EXPOSED_COMMUNICATION]) / scope.count - waiting
    beside = float(sums[OverlapKind.COMPUTE_AND_COMMUNICATION]) / scope.count
    launching = _launching_ns(run)
    share = scope.share(exposed)
    if max(share, scope.share(launching)) < MEASURABLE_RATIO:
        return []
    if beside > _OVERLAPPED_RATIO * (exposed + beside):
        return []
    places = np.flatnonzero(collectives)
    many = f"{plural(round(scope.number_of(collectives)), 'collective')}{scope.each}"
    title = f"Communication not overlapped with compute takes {format_ratio(share)} of the time"
    if share < MEASURABLE_RATIO:
        title = f"Launching {many} takes {format_ns(launching)} of CPU time"
    leave = "leaves" if many.startswith("1 ") else "leave"
    without = ", excluding waits for other ranks" if waiting else ""
    shown = [scope.show_operations(many, collectives)]
    if scope.share(launching) >= MEASURABLE_RATIO:
        text = f"the CPU takes {format_ns(launching)}{scope.each} to launch them one by one"
        shown.append(Evidence(text))
    advice = overlap_advice(run.trace, collectives & scope.operations)
    return [
        Finding(
            NAME,
            severity_of(share),
            title,
            f"{many} {leave} {format_ns(exposed)} ({format_ratio(share)}) of communication"
            f" exposed{without}.",
            tuple(shown),
            advice.fix,
            "Profile again: `warpline stats -r overlap` shows less exposed communication.",
            fix_cuda=advice.fix_cuda,
            fix_in=advice.fix_in,
            changes=(OverlapCollectives(places, _BUCKETS, scope.step[places], _moving(run.trace)),),
            on_devices=_on_devices(run, collectives),
        )
    ]


def _on_devices(run: Run, collectives: BoolArray) -> tuple[OnDevice, ...]:
    """Return the number of collectives per rank, and their exposed time without waits."""
    overlaps, waits, work = step_overlaps(run), rank_waits(run), operations(run.trace)
    scope, facts = step_scope(run), []
    for rank in ranks_of(overlaps.windows):
        exposed = overlaps.ns[rank.windows, OverlapKind.EXPOSED_COMMUNICATION].sum()
        waiting = waits.exposed_wait_ns[rank.owns(waits.process, waits.device)].sum()
        own = collectives & scope.operations & rank.owns(work.process, work.device)
        number = int(np.count_nonzero(own))
        if number:
            # A wait in a collective that ends after the step is longer than its part of the step.
            ns = max(int(exposed - waiting), 0)
            facts.append(scope.on_device(rank.process, rank.device, ns, number))
    return tuple(facts)


def _collectives(trace: Trace) -> BoolArray:
    """Return which operations are collectives."""
    is_collective: BoolArray = operation_categories(trace) == TimePart.COLLECTIVE
    return is_collective


def _moving(trace: Trace) -> Estimate:
    """Return the share of a collective's time that may move data."""
    is_alone = len(collective_matches(trace).rank_process) < 2
    return _ALONE if is_alone else Estimate(1.0, 1.0, 1.0)


def _launching_ns(run: Run) -> float:
    """Return the CPU time per step from one collective's launch to the next.

    Counts only collectives with at most two other operations launched in between.
    """
    sequences, work = launch_sequences(run), operations(run.trace)
    collectives, total = _collectives(run.trace), 0
    if not collectives.any():
        return 0.0
    start = run.trace.columns("api_call", "start_ns")["start_ns"].values
    for step, rows in sequences.of_steps():
        if not find_steps(run).included[step]:
            continue
        launched = sequences.operation[rows]
        places = np.flatnonzero(collectives[launched])
        close = np.diff(places) <= _MOST_BETWEEN + 1
        since = np.diff(start[work.call[launched[places]]])
        total += int(since[close].sum())
    return total / step_scope(run).count
