"""exposed-communication: collectives run while nothing is computed."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import KINDS, step_overlaps
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.matches import collective_matches
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.result import Evidence, Finding, rule
from warpline.result.changes import OverlapCollectives, Range
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "exposed-communication"
TITLE = "Collectives run while nothing is computed"

_OVERLAPPED_RATIO = 0.3  # of which more already run beside computing
_BUCKETS = 8
# Of their time, seen from one rank only: the rest may be waiting for others that come later.
_ALONE = Range(0.1, 1.0, 1.0)
_MOST_BETWEEN = 2  # operations that prepare or scale what is sent


@rule(name=NAME, title=TITLE)
def exposed_communication(trace: Trace, steps: str | None) -> list[Finding]:
    """Collectives that run while the device computes nothing.

    What it finds: Collectives without computing beside them that take at least 5% of a step, or
        take the host as long to launch one after the other, where less than 30% of their time is
        beside computing.
    Why it matters: The gradients of a layer can be sent while those of the layers before it are
        computed; most of the time of communication then costs nothing.
    How it is found: From the overlap of kernels of collectives with computing (see overlap). In a
        trace of several ranks the time in which they wait for the last one is left out (see
        straggler).
    What to do: Send in a few buckets, as soon as their data are there.
    Limits: In the recording of one rank the time of a collective includes waiting for the others.
        Open the recordings of all ranks together, to see which one is late.
    Source: PyTorch's documentation of DistributedDataParallel; measured on a program with and
        without overlap.
    """
    scope, collectives = step_scope(trace, steps), _collectives(trace)
    sums, waits = step_overlaps(trace, steps).ns.sum(axis=0), rank_waits(trace, steps)
    waiting = float(waits.exposed_wait_ns.sum()) / scope.count
    exposed = float(sums[KINDS.index("exposed-communication")]) / scope.count - waiting
    beside = float(sums[KINDS.index("compute-and-communication")]) / scope.count
    launching = _launching_ns(trace, steps)
    share = scope.share(exposed)
    if max(share, scope.share(launching)) < MEASURABLE_RATIO:
        return []
    if beside > _OVERLAPPED_RATIO * (exposed + beside):
        return []
    places = np.flatnonzero(collectives)
    many = plural(round(scope.number_of(collectives)), "collective")
    is_are = "is" if many.startswith("1 ") else "are"
    without = ", not counting that ranks wait for each other" if waiting else ""
    shown = [scope.show_operations(f"{many}{scope.each}", collectives)]
    if scope.share(launching) >= MEASURABLE_RATIO:
        text = f"the host launches them one by one for {format_ns(launching)}{scope.each}"
        shown.append(Evidence(text))
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"While {many}{scope.each} {is_are} under way, nothing is computed for"
            f" {format_ns(exposed)} ({format_ratio(share)}){without}.",
            tuple(shown),
            "Wrap the model in DistributedDataParallel(gradient_as_bucket_view=True) or FSDP,"
            " which send buckets during the backward pass; do not all-reduce tensor by tensor"
            " after it",
            "record again: `warpline stats -r overlap` shows less exposed communication",
            fix_cuda="Group small buffers (ncclGroupStart) into buckets of tens of MB, and launch"
            " each on a stream of its own behind an event of its last producer",
            changes=(OverlapCollectives(places, _BUCKETS, scope.step[places], _moving(trace)),),
        )
    ]


def _collectives(trace: Trace) -> BoolArray:
    """Return which operations are collectives."""
    found: BoolArray = operation_categories(trace) == BUSY_CATEGORIES.index("collective")
    return found


def _moving(trace: Trace) -> Range:
    """Return which part of the time of collectives may be their own."""
    is_alone = len(collective_matches(trace).lane_process) < 2
    return _ALONE if is_alone else Range(1.0, 1.0, 1.0)


def _launching_ns(trace: Trace, name: str | None) -> float:
    """Return the host time per step from one collective's launch to the next one's.

    Counted is where one or two operations at most are launched between the two.
    """
    found, work = launch_sequences(trace, name), operations(trace)
    collectives, total = _collectives(trace), 0
    if not collectives.any():
        return 0.0
    start = trace.columns("api_call", "start_ns")["start_ns"].values
    for step, rows in found.of_steps():
        if not find_steps(trace, name).included[step]:
            continue
        launched = found.operation[rows]
        places = np.flatnonzero(collectives[launched])
        close = np.diff(places) <= _MOST_BETWEEN + 1
        since = np.diff(start[work.call[launched[places]]])
        total += int(since[close].sum())
    return total / step_scope(trace, name).count
