"""input-bound: the GPU waits for the next batch."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.input_waits import InputWaits, input_waits
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.program import is_training, program_kind
from warpline.derived.recorder import hints
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Evidence, Finding, rule
from warpline.result.changes import RemoveHostTime
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "input-bound"
TITLE = "Input-bound: the GPU waits for the next batch"

_SHOWN = 5
_MOST_STEPS = 0.5  # of the steps: a wait in fewer steps does not affect the median step
# Of the time to make a batch: fetching a ready one from a queue takes a little, too.
_REMAINING = Estimate(0.0, 0.02, 0.05)
_FIX_TRAINING = (
    "Raise num_workers and prefetch_factor of the DataLoader. Set pin_memory=True. Move decoding"
    " and augmentation to workers or the GPU."
)
_FIX = (
    "Prepare the next batch ahead, in other threads or processes. Put it into pinned memory, and"
    " copy it with non_blocking=True while the GPU processes the current one."
)
_FIX_ROUND_TRIP = (
    "Do this work on the GPU, and keep the data there: tensor operations instead of .cpu(), NumPy,"
    " and .to(device)."
)
_FIX_ROUND_TRIP_CUDA = (
    "Do this work in a kernel, and keep the data on the GPU: copy it to the host only when the"
    " host needs it."
)


@rule(name=NAME, title=TITLE, aliases=("data-starved",))
def input_bound(run: Run) -> list[Finding]:
    """Idle time of the GPU while the CPU loads or prepares the next batch.

    What it finds: Idle time of the cause input (see breakdown) of at least 5% of the step.
    Why it matters: Faster kernels do not help a GPU that waits for its input.
    How it is found: A thread that launches work waits in a DataLoader or in the operating system,
        or makes no CUDA API call for half a millisecond. Its next launch is a host-to-device copy.
        Waits that do not repeat, such as start-up, are reported as a CPU gap. So is CPU work on
        data that is copied from the GPU before and back after it, which cannot be done ahead.
    What to do: Prepare batches in other processes, ahead of their use.
    Limits: Without OS calls (nsys: --trace=osrt) or the loader's ranges in the recording, waiting
        for data and preparing data look the same.
    Source: PyTorch's documentation of data loading; measured on programs with a slow loader and
        with batches made in the training thread.
    """
    scope = step_scope(run)
    idle_ns = scope.idle_ns(TimePart.INPUT)
    share = scope.share_of_all(idle_ns)
    if share < MEASURABLE_RATIO:
        return []
    waits = input_waits(run)
    if waits.nature != "pipeline":
        return [_gap(run, scope, waits)]
    held = blocking(run.trace)
    rows = np.flatnonzero(held.cause == TimePart.INPUT)
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
    often, where = _how_often(run)
    text = f"{plural(len(rows), 'wait')} for input, longest first"
    data = "input data" if program_kind(run.trace) == "cuda" else "the next batch"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Input-bound: the GPU waits for {data} {format_ratio(share)} of the time",
            f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) while the CPU loads"
            f" or prepares data.{where}",
            (Evidence(text, None, (), len(rows), tuple(windows)),),
            _FIX_TRAINING if is_training(run.trace) else _FIX,
            "Profile again: `warpline analyze` shows no idle time of the cause input.",
            fix_cuda="Fill pinned buffers in other threads. Copy the next input with"
            " cudaMemcpyAsync on a second stream while the GPU processes the current one.",
            fix_in={
                "jax": "Prepare the next batches ahead, in other threads or processes, and"
                " prefetch them to the device: call jax.device_put one or two batches before"
                " their use."
            },
            changes=changes if often else (),
            share=share,
            on_devices=scope.idle_on_devices(TimePart.INPUT),
        )
    ]


def _gap(run: Run, scope: StepScope, waits: InputWaits) -> Finding:
    """Return the finding of waits that are no input pipeline; nothing predicts their end."""
    idle_ns = scope.idle_ns(TimePart.INPUT)
    share = scope.share_of_all(idle_ns)
    idle = f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)})"
    severity = severity_of(share)
    if waits.nature == "round-trip":
        title = f"CPU work between copies leaves the GPU idle {format_ratio(share)} of the time"
        claim = f"{idle} while the CPU works on data that it copies from the GPU and back."
        fix, fix_cuda = _FIX_ROUND_TRIP, _FIX_ROUND_TRIP_CUDA
    else:
        gaps = plural(waits.number, "CPU gap")
        leave = "A long CPU gap leaves" if waits.number == 1 else "Long CPU gaps leave"
        title = f"{leave} the GPU idle {format_ratio(share)} of the time"
        claim = f"{idle} in {gaps} before a host-to-device copy, too few for an input pipeline."
        severity = "medium" if severity == "high" else severity
        fix, fix_cuda = hints(run.trace).gap, ""
    return Finding(
        NAME,
        severity,
        title,
        claim,
        (Evidence(f"{plural(waits.number, 'wait')} before host-to-device copies"),),
        fix,
        "Profile again: `warpline analyze` shows no idle time of the cause input.",
        fix_cuda=fix_cuda,
        share=share,
        on_devices=scope.idle_on_devices(TimePart.INPUT),
    )


def _how_often(run: Run) -> tuple[bool, str]:
    """Return whether most steps wait for data, as a saving requires, and a sentence if not."""
    parts, scope = step_partition(run), step_scope(run)
    idle_ns = parts.ns[:, TimePart.INPUT]
    length = parts.windows.end_ns - parts.windows.start_ns
    many = int(np.count_nonzero((idle_ns >= MEASURABLE_RATIO * length) & (idle_ns > 0)))
    if not scope.has_steps or many > _MOST_STEPS * len(length):
        return True, ""
    return False, f" Affects only {many:,} of {plural(len(length), 'step')}."
