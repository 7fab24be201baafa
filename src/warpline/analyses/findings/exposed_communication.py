"""exposed-communication: communication is not overlapped with compute."""

from __future__ import annotations

from dataclasses import replace

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
_LEAST_SHARE = 0.02  # of the step
_BUCKETS = 8
# Share of a collective's time that moves data where only one rank is in the trace. The rest may be
# waiting for other ranks.
_ALONE = Estimate(0.1, 1.0, 1.0)
_MOST_BETWEEN = 2  # operations that prepare or scale a collective's data


@rule(name=NAME, title=TITLE)
def exposed_communication(run: Run) -> list[Finding]:
    """Collectives that run while the GPU computes nothing.

    What it finds: Exposed communication of at least 2% of the step, or at least 5% spent by the
        CPU on launching collectives one by one where communication is hardly overlapped with
        compute.
    Why it matters: A layer's gradients can be reduced while those of earlier layers are computed.
        This hides most of the communication.
    How it is found: From the overlap of collective kernels with compute (see overlap), on the rank
        with the most. With several ranks in the trace, waits for the last rank are excluded (see
        straggler). If 30% or more of communication is overlapped already, its exposed part is
        reported without an estimate.
    What to do: Communicate in a few buckets, each as soon as its data is ready. The advice depends
        on the collective that takes most of the time.
    Limits: No saving is estimated for all-reduces of activations, as in inference: each layer waits
        for the previous one's.
        In a recording of a single rank, a collective's time includes waiting for other ranks.
        Open the recordings of all ranks together to see which one is late.
    Source: PyTorch's documentation of DistributedDataParallel; measured on a program with and
        without overlap.
    """
    scope, collectives = step_scope(run), _collectives(run.trace)
    facts = _on_devices(run, collectives)
    exposed = max((fact.ns / max(fact.steps, 1) for fact in facts), default=0.0)
    overlapped, launching = _overlapped_ratio(run), _launching_ns(run)
    is_overlapped = overlapped > _OVERLAPPED_RATIO
    many_launches = not is_overlapped and scope.share(launching) >= MEASURABLE_RATIO
    share = scope.share(exposed)
    if share < _LEAST_SHARE and not many_launches:
        return []
    many = f"{plural(max(round(scope.number_of(collectives)), 1), 'collective')}{scope.each}"
    title = f"Communication not overlapped with compute takes {format_ratio(share)} of the time"
    if many_launches and share < MEASURABLE_RATIO:
        title = f"Launching {many} takes {format_ns(launching)} of CPU time"
    leave = "leaves" if many.startswith("1 ") else "leave"
    without = ", excluding waits for other ranks" if _waits(run) else ""
    beside = f" {format_ratio(overlapped)} of communication is overlapped." if overlapped else ""
    shown = [scope.show_operations(many, collectives)]
    if many_launches:
        text = f"the CPU takes {format_ns(launching)}{scope.each} to launch them one by one"
        shown.append(Evidence(text))
    chosen = collectives & scope.operations
    advice = overlap_advice(run.trace, chosen, is_overlapped=is_overlapped)
    finding = Finding(
        NAME,
        severity_of(share),
        title,
        f"{many} {leave} {format_ns(exposed)} ({format_ratio(share)}) of communication"
        f" exposed{without}.{beside}",
        tuple(shown),
        advice.fix,
        "Profile again: `warpline stats -r overlap` shows less exposed communication.",
        fix_cuda=advice.fix_cuda,
        fix_in=advice.fix_in,
        share=share,
        on_devices=facts,
    )
    if is_overlapped or not advice.in_buckets:
        return [finding]
    places = np.flatnonzero(collectives)
    changes = OverlapCollectives(
        places, _BUCKETS, scope.step[places].astype(np.int64), _moving(run.trace)
    )
    return [replace(finding, changes=(changes,))]


def _overlapped_ratio(run: Run) -> float:
    """Return the share of communication that is overlapped with compute, without waits."""
    sums = step_overlaps(run).ns.sum(axis=0)
    waiting = int(rank_waits(run).exposed_wait_ns.sum())
    beside = int(sums[OverlapKind.COMPUTE_AND_COMMUNICATION])
    exposed = max(int(sums[OverlapKind.EXPOSED_COMMUNICATION]) - waiting, 0)
    return beside / (beside + exposed) if beside else 0.0


def _waits(run: Run) -> bool:
    """Return whether ranks wait for each other while they compute nothing."""
    return bool(rank_waits(run).exposed_wait_ns.any())


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
    collectives = _collectives(run.trace)
    if not collectives.any() or not run.trace.has("api_call"):
        return 0.0
    start = run.trace.columns("api_call", "start_ns")["start_ns"].values
    is_chosen = collectives[sequences.operation] & find_steps(run).included[sequences.step]
    places = np.flatnonzero(is_chosen)
    close = np.diff(places) <= _MOST_BETWEEN + 1
    close &= np.diff(sequences.step[places]) == 0
    since = np.diff(start[work.call[sequences.operation[places]]])
    return int(since[close].sum()) / step_scope(run).count
