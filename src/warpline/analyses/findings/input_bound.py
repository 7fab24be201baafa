"""input-bound: the GPU waits for the next batch."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.lost_time import (
    how_often,
    listed_functions,
    longest_first,
    waits_while_idle,
    without,
)
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.os_waits import has_context_switches
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.program import is_training
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "input-bound"
TITLE = "Input-bound: the GPU waits for the next batch"

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


@rule(name=NAME, title=TITLE, aliases=("data-starved",))
def input_bound(run: Run) -> list[Finding]:
    """Idle time of the GPU while the CPU loads or prepares the next batch.

    What it finds: Idle time of the cause input (see breakdown) of at least 5% of the step.
    Why it matters: Faster kernels do not help a GPU that waits for its input.
    How it is found: A thread that launches work waits in a DataLoader or in the operating system,
        or makes no CUDA API call for half a millisecond. Its next launch is a host-to-device copy,
        or after a long wait one of the next few. Sleeping and waiting for locks is os-wait.
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
    held = blocking(run.trace)
    rows = np.flatnonzero(held.cause == TimePart.INPUT)
    waits = ThreadTimes(held.start_ns[rows], held.end_ns[rows], held.thread[rows])
    often, where = how_often(run, TimePart.INPUT)
    idle_waits = waits_while_idle(run, TimePart.INPUT)
    listed = listed_functions(run.trace, idle_waits, scope.count)
    seen = f": {listed}" if listed else ""
    if has_context_switches(run.trace):
        ran_ns = idle_ns - float((idle_waits.end_ns - idle_waits.start_ns).sum()) / scope.count
        where = f" It runs for {format_ns(max(ran_ns, 0.0))} of that.{where}"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Input-bound: the GPU waits for the next batch {format_ratio(share)} of the time",
            f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) while the CPU loads"
            f" or prepares data{seen}.{where}",
            (longest_first(f"{plural(len(rows), 'wait')} for input", waits),),
            _FIX_TRAINING if is_training(run.trace) else _FIX,
            "Profile again: `warpline analyze` shows no idle time of the cause input.",
            fix_cuda="Fill pinned buffers in other threads. Copy the next batch with"
            " cudaMemcpyAsync on a second stream while the GPU processes the current one.",
            fix_in={
                "jax": "Prepare the next batches ahead, in other threads or processes, and"
                " prefetch them to the device: call jax.device_put one or two batches before"
                " their use."
            },
            changes=without(waits, _REMAINING) if often else (),
            share=share,
            on_devices=scope.idle_on_devices(TimePart.INPUT),
        )
    ]
