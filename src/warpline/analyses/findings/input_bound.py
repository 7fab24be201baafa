"""input-bound: the GPU waits for the next batch."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.host_lines import line_hint
from warpline.derived.breakdown.input_waits import InputWaits, input_waits
from warpline.derived.breakdown.loading import Loading, loading
from warpline.derived.breakdown.lost_time import (
    how_often,
    listed_functions,
    longest_first,
    of_most_idle,
    waits_while_idle,
    without,
)
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.os_waits import has_context_switches
from warpline.derived.idle.silences import ThreadTimes
from warpline.derived.program import is_training, program_kind
from warpline.derived.recorder import hints
from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.derived.time_parts import TimePart
from warpline.estimate import Estimate
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "input-bound"
TITLE = "Input-bound: the GPU waits for the next batch"

# Of the time to make a batch: fetching a ready one from a queue takes a little, too.
_REMAINING = Estimate(0.0, 0.02, 0.05)
_MOST = 0.5  # of the stall
_LEAST_PREEMPTED = 0.1
_FIX_CORES = (
    "Give the program more CPU cores (taskset -p PID, the CPU limit of its container). Otherwise,"
    " start fewer workers and threads, and make their work cheaper or move it to the GPU. More"
    " workers do not help."
)
_FIX_TRAINING = (
    "Raise num_workers and prefetch_factor of the DataLoader. Set pin_memory=True. Move decoding"
    " and augmentation to workers or the GPU."
)
_FIX = (
    "Prepare the next batch ahead, in other threads or processes. Put it into pinned memory, and"
    " copy it with non_blocking=True while the GPU processes the current one."
)
_FIX_ROUND_TRIP = (
    "If the CPU changes the data that was copied from the GPU, do that on the GPU and keep the data"
    " there: tensor operations instead of .cpu(), NumPy, and .to(device). Otherwise prepare the"
    " data to copy ahead, in another thread."
)
_FIX_ROUND_TRIP_CUDA = (
    "If the CPU changes the data that was copied from the GPU, do that in a kernel and keep the"
    " data on the GPU. Otherwise prepare the data to copy ahead, in another thread."
)


@rule(name=NAME, title=TITLE, aliases=("data-starved",))
def input_bound(run: Run) -> list[Finding]:
    """Idle time of the GPU while the CPU loads or prepares the next batch.

    What it finds: Idle time of the cause input (see breakdown) of at least 5% of the step.
    Why it matters: Faster kernels do not help a GPU that waits for its input.
    How it is found: A thread that launches work waits in a DataLoader or in the operating system,
        or makes no CUDA API call for half a millisecond. Its next launch is a host-to-device copy,
        or after a long wait one of the next few. Sleeping and waiting for locks is os-wait. Waits
        that do not repeat, such as start-up, are reported as a CPU gap. So is CPU work on data that
        is copied from the GPU before and back after it, which cannot be done ahead.
    What to do: Prepare batches in other processes, ahead of their use.
    Limits: Without OS calls (nsys: --trace=osrt) or the loader's ranges in the recording, waiting
        for data and preparing data look the same. The function that prepares data needs samples
        (-s process-tree --python-sampling=true). Workers of several ranks count together.
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
    seen = input_waits(run)
    if seen.nature != "pipeline":
        return [_gap(run, scope, seen, waits)]
    often, where = how_often(run, TimePart.INPUT)
    every_wait = waits_while_idle(run, TimePart.INPUT)
    idle_waits, count = of_most_idle(run, TimePart.INPUT, every_wait)
    listed = listed_functions(run.trace, idle_waits, count)
    functions = f": {listed}" if listed else ""
    if has_context_switches(run.trace):
        ran_ns = idle_ns - float((idle_waits.end_ns - idle_waits.start_ns).sum()) / count
        where = f" It runs for {format_ns(max(ran_ns, 0.0))} of that.{where}"
    loads = loading(run)
    faults = loads.faults.fix if loads else ""
    data = "input data" if program_kind(run.trace) == "cuda" else "the next batch"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Input-bound: the GPU waits for {data} {format_ratio(share)} of the time"
            f"{_mostly(loads)}",
            f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) while the CPU loads"
            f" or prepares data{functions}.{where}{_doing(loads)}",
            (longest_first(f"{plural(len(rows), 'wait')} for input", waits), *_samples(loads)),
            f"{_fix(run, loads)}{faults}{line_hint(run.trace)}",
            "Profile again: `warpline analyze` shows no idle time of the cause input.",
            fix_cuda="Fill pinned buffers in other threads. Copy the next input with"
            " cudaMemcpyAsync on a second stream while the GPU processes the current one."
            + faults
            + line_hint(run.trace),
            fix_in={
                "jax": "Prepare the next batches ahead, in other threads or processes, and"
                " prefetch them to the device: call jax.device_put one or two batches before"
                " their use." + line_hint(run.trace)
            },
            changes=without(waits, _REMAINING) if often else (),
            share=share,
            on_devices=scope.idle_on_devices(TimePart.INPUT),
        )
    ]


def _fix(run: Run, loads: Loading | None) -> str:
    if loads and loads.preempted_ns >= _MOST * loads.lines.ns > 0:
        return _FIX_CORES
    return _FIX_TRAINING if is_training(run.trace) else _FIX


def _mostly(loads: Loading | None) -> str:
    """Return the end of a title with the line that takes most of the stall, if one does."""
    line = loads.lines.main(_MOST) if loads else None
    return f", mostly for {line.text}" if line else ""


def _doing(loads: Loading | None) -> str:
    """Return sentences about what happens during the stall; empty if unknown."""
    if loads is None:
        return ""
    said = loads.lines.shared("the stall") + loads.faults.claim
    if loads.preempted_ns >= _LEAST_PREEMPTED * loads.lines.ns > 0:
        share = format_ratio(loads.preempted_ns / loads.lines.ns)
        said += f" For {share} of the stall, workers could run but are not scheduled:"
        said += " too few CPU cores."
    if loads.off_cpu:
        are = "is" if loads.off_cpu == 1 else "are"
        workers = plural(loads.workers, "worker process", "worker processes")
        said += f" {loads.off_cpu} of {workers} {are} off the CPU for most of it."
    return said


def _samples(loads: Loading | None) -> tuple[Evidence, ...]:
    if loads is None or not loads.lines.samples:
        return ()
    lines = loads.lines
    text = f"{plural(lines.samples, 'sample')} during these waits"
    return (Evidence(text, lines.table, lines.rows, lines.samples),)


def _gap(run: Run, scope: StepScope, seen: InputWaits, waits: ThreadTimes) -> Finding:
    """Return the finding of waits that are no input pipeline; nothing predicts their end."""
    idle_ns = scope.idle_ns(TimePart.INPUT)
    share = scope.share_of_all(idle_ns)
    idle = f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)})"
    severity, lines = severity_of(share), _doing(loading(run))
    if seen.nature == "round-trip":
        title = f"CPU work between copies leaves the GPU idle {format_ratio(share)} of the time"
        claim = (
            f"{idle} while the CPU works between a copy from the GPU and one of the same size back."
        )
        fix, fix_cuda = _FIX_ROUND_TRIP, _FIX_ROUND_TRIP_CUDA
    else:
        gaps = plural(seen.number, "CPU gap")
        leave = "A long CPU gap leaves" if seen.number == 1 else "Long CPU gaps leave"
        title = f"{leave} the GPU idle {format_ratio(share)} of the time"
        claim = f"{idle} in {gaps} before a host-to-device copy, too few for an input pipeline."
        severity = "medium" if severity == "high" else severity
        fix, fix_cuda = hints(run.trace).gap, ""
    return Finding(
        NAME,
        severity,
        title,
        f"{claim}{lines}",
        (longest_first(f"{plural(len(waits.thread), 'wait')} for input", waits),),
        fix,
        "Profile again: `warpline analyze` shows no idle time of the cause input.",
        fix_cuda=fix_cuda,
        share=share,
        on_devices=scope.idle_on_devices(TimePart.INPUT),
    )
