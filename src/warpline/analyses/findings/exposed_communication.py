"""exposed-communication: collectives run while nothing is computed."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.overlaps import KINDS, step_overlaps
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.result import Finding, rule
from warpline.result.changes import OverlapCollectives
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio

NAME = "exposed-communication"
TITLE = "Collectives run while nothing is computed"

_OVERLAPPED_RATIO = 0.3  # of which more already run beside computing
_BUCKETS = 8


@rule(name=NAME, title=TITLE)
def exposed_communication(trace: Trace, steps: str | None) -> list[Finding]:
    """Collectives that run while the device computes nothing.

    What it finds: Collectives without computing beside them that take at least 5 % of a step, where
        less than 30 % of the time of collectives is beside computing.
    Why it matters: The gradients of a layer can be sent while those of the layers before it are
        computed; most of the time of communication then costs nothing.
    How it is found: From the overlap of kernels of collectives with computing (see overlap).
    What to do: Send in a few buckets, as soon as their data are there.
    Limits: The time of a collective includes waiting for the other ranks. Open the recordings of
        all ranks together, to see which one is late.
    Source: PyTorch's documentation of DistributedDataParallel; measured on a program with and
        without overlap.
    """
    scope = step_scope(trace, steps)
    sums = step_overlaps(trace, steps).ns.sum(axis=0)
    exposed = float(sums[KINDS.index("exposed-communication")]) / scope.count
    whole = float(sums[KINDS.index("communication")]) / scope.count
    share = scope.share(exposed)
    if share < MEASURABLE_RATIO or whole - exposed > _OVERLAPPED_RATIO * whole:
        return []
    collectives = operation_categories(trace) == BUSY_CATEGORIES.index("collective")
    count = scope.number_of(collectives)
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"{count:,.0f} collectives{scope.each} run for {format_ns(exposed)}"
            f" ({format_ratio(share)}) while nothing is computed.",
            (scope.show_operations(f"{count:,.0f} collectives{scope.each}", collectives),),
            "Wrap the model in DistributedDataParallel(gradient_as_bucket_view=True) or FSDP,"
            " which send buckets during the backward pass; do not all-reduce tensor by tensor"
            " after it",
            "record again: `warpline stats -r overlap` shows less exposed communication",
            fix_cuda="Group small buffers (ncclGroupStart) into buckets of tens of MB, and launch"
            " each on a stream of its own behind an event of its last producer",
            changes=(OverlapCollectives(np.flatnonzero(collectives), _BUCKETS),),
        )
    ]
