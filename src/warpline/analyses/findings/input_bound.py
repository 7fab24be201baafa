"""input-bound: the GPU waits for the next batch."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.segments import PARTS
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.kinds import IDLE_CAUSES
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.result import Evidence, Finding, rule
from warpline.result.changes import Range, RemoveHostTime
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "input-bound"
TITLE = "Input-bound: the GPU waits for the next batch"

_SHOWN = 5
_MOST_STEPS = 0.5  # of the steps; what fewer wait for is nothing that the median step has
# Taking a batch that is ready from its queue costs a little of what making it did.
_REMAINING = Range(0.0, 0.02, 0.05)


@rule(name=NAME, title=TITLE, aliases=("data-starved",))
def input_bound(trace: Trace, steps: str | None) -> list[Finding]:
    """Time in which the device is idle because the host has no data for it yet.

    What it finds: Idle time of the cause input (see breakdown), if it is at least 5% of a step.
    Why it matters: No faster kernel helps a device that waits for its input.
    How it is found: A thread that launches work waits in a DataLoader or in the operating system,
        or makes no CUDA call for half a millisecond, and launches a copy from the host next.
    What to do: Prepare batches in other processes, ahead of their use.
    Limits: Whether a silent thread waited for data or worked on it does not show without OS calls
        (--trace=osrt) or the loader's ranges.
    Source: PyTorch's documentation of data loading; measured on programs with a slow loader and
        with batches made in the training thread.
    """
    scope = step_scope(trace, steps)
    idle_ns = scope.idle_ns("input")
    share = scope.share_of_all(idle_ns)
    if share < MEASURABLE_RATIO:
        return []
    held = blocking(trace)
    rows = np.flatnonzero(held.cause == IDLE_CAUSES.index("input"))
    longest = rows[np.argsort(held.start_ns[rows] - held.end_ns[rows], kind="stable")][:_SHOWN]
    windows = zip(held.start_ns[longest].tolist(), held.end_ns[longest].tolist(), strict=True)
    changes = tuple(
        RemoveHostTime(
            thread,
            held.start_ns[rows][held.thread[rows] == thread],
            held.end_ns[rows][held.thread[rows] == thread],
            _REMAINING,
        )
        for thread in np.unique(held.thread[rows]).tolist()
    )
    often, where = _how_often(trace, steps)
    text = f"the host was {len(rows):,} times busy with data, the longest ones first"
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"The device is idle for {format_ns(idle_ns)}{scope.each} ({format_ratio(share)})"
            f" because the host is still waiting for data or preparing it{where}.",
            (Evidence(text, None, (), len(rows), tuple(windows)),),
            "Give the DataLoader more workers (num_workers), prefetch_factor and pin_memory=True;"
            " move decoding and augmentation out of the training loop, to workers or to the GPU",
            "record again: `warpline analyze` shows no idle time of the cause input",
            fix_cuda="Fill pinned buffers in other threads, and copy the next one with"
            " cudaMemcpyAsync on a second stream while the device works on this one",
            changes=changes if often else (),
            share=share,
        )
    ]


def _how_often(trace: Trace, steps: str | None) -> tuple[bool, str]:
    """Return whether most steps wait for data, which a price per step needs; if not, how many."""
    found, scope = step_partition(trace, steps), step_scope(trace, steps)
    idle_ns = found.ns[:, PARTS.index("input")]
    length = found.windows.end_ns - found.windows.start_ns
    many = int(np.count_nonzero((idle_ns >= MEASURABLE_RATIO * length) & (idle_ns > 0)))
    if not scope.has_steps or many > _MOST_STEPS * len(length):
        return True, ""
    return False, f"; only {plural(many, 'step')} of {len(length):,} have such a wait"
