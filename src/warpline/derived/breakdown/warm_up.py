"""What made the excluded steps long: compilation, autotuning, loading of code, allocation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.code_loading import (
    ThreadSpans,
    code_loading,
    compiling,
    is_tuning,
    timings,
)
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.steps.exclusion import FIRST, OUTLIER, WARM_UP
from warpline.derived.steps.times import Steps, steps
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import F64, I64
from warpline.ops.tree import enclosing
from warpline.trace import Run, Trace
from warpline.units import plural

_LEAST_SHARE = 0.1  # of the time by which a step is longer than the median
_MOST_NAMED = 2


@derived
def warm_up_causes(run: Run) -> Mapping[int, str]:
    """Return why excluded steps took longer, by step: at most two causes, the longer first.

    Of steps that were excluded for their duration, where CUDA API calls show it: CPU gaps before
    code is loaded (compilation), the time in which a library times kernels to choose one
    (autotuning), calls that load code, and calls that allocate or free memory. A cause counts from
    a tenth of the time by which the step is longer than the median step.
    """
    run_steps = steps(run)
    chosen = [of.step for of in run_steps.excluded if of.reason in {FIRST, WARM_UP, OUTLIER}]
    included = np.flatnonzero(run_steps.included)
    if not chosen or not len(included) or not run.trace.has("api_call"):
        return {}
    period = run_steps.host_period_ns
    excess_ns = period - np.median(period[included])
    spent = {
        "compilation": _inside(run_steps, compiling(run.trace)),
        "autotuning": _tuning(run_steps, timings(run.trace), included),
        "loading code": _inside(run_steps, code_loading(run.trace)),
        "memory allocation": _inside(run_steps, _allocating(run.trace)),
    }
    causes = {}
    for step in chosen:
        least_ns = max(_LEAST_SHARE * float(excess_ns[step]), 1.0)
        long = sorted((-ns[step], name) for name, ns in spent.items() if ns[step] >= least_ns)
        if long:
            causes[step] = " and ".join(name for _, name in long[:_MOST_NAMED])
    return causes


def excluded_steps(run: Run) -> str:
    """Return how many steps are excluded and why, such as ``1 of 9 steps excluded (last)``."""
    run_steps, causes = steps(run), warm_up_causes(run)
    reasons = dict.fromkeys(
        f"{of.reason}: {causes[of.step]}" if of.step in causes else of.reason
        for of in run_steps.excluded
    )
    text = f"{len(run_steps.excluded)} of {plural(len(run_steps), 'step')} excluded"
    return f"{text} ({', '.join(reasons)})" if reasons else text


def _step_of(run_steps: Steps, spans: ThreadSpans) -> I64:
    """Return the step in which each time began, by its process; -1 for none."""
    around = enclosing(
        spans.start_ns,
        run_steps.host_start_ns,
        run_steps.host_start_ns + run_steps.host_period_ns,
        point_group=spans.process,
        group=run_steps.process,
    )
    return np.where(around.found, around.row, -1)


def _inside(run_steps: Steps, spans: ThreadSpans) -> F64:
    """Return the sum of times in each step, shape (steps,)."""
    step = _step_of(run_steps, spans)
    length = (spans.end_ns - spans.start_ns)[step >= 0]
    return np.bincount(step[step >= 0], length, len(run_steps)).astype(np.float64)


def _tuning(run_steps: Steps, reads: ThreadSpans, included: I64) -> F64:
    """Return the time from the first to the last read of event times, in steps with many."""
    step = _step_of(run_steps, reads)
    number = np.bincount(step[step >= 0], minlength=len(run_steps))
    usual = float(np.median(number[included]))
    spent = np.zeros(len(run_steps))
    for place in np.flatnonzero(is_tuning(number, usual)).tolist():
        own = step == place
        spent[place] = reads.end_ns[own].max() - reads.start_ns[own].min()
    return spent


def _allocating(trace: Trace) -> ThreadSpans:
    held = blocking(trace)
    rows = np.flatnonzero(held.cause == TimePart.ALLOCATOR)
    columns = (held.start_ns, held.end_ns, held.thread, held.process)
    return ThreadSpans(*(column[rows] for column in columns))
