"""step-jitter: some steps take much longer than the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_differences import (
    StepItems,
    call_items,
    device_items,
    differences,
    line_items,
    range_items,
    usual_period_ns,
)
from warpline.derived.recorder import hints
from warpline.derived.steps.exclusion import OUTLIER
from warpline.derived.steps.times import Steps, step_of_operations, steps
from warpline.ops.arrays import F64, I64
from warpline.ops.group import distinct_values
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio

NAME = "step-jitter"
TITLE = "Some steps take much longer than the others"

_LEAST_SHARE = 0.10
_MEDIUM_SHARE = 0.15
_LEAST_STEPS = 8  # with fewer, the usual duration is uncertain
_SLOW = 1.25  # medians
_MORE_WORK = 1.1  # times the usual number of operations
_EXPLAINS = 0.5  # of the extra time
_COMPARED, _SHOWN, _NAMED = 8, 5, 2


class _Slow(NamedTuple):
    """The slow steps of a loop.

    Attributes:
        step: Shape (n,), int64, slowest first.
        counted: Shape (m,), int64, the steps that they are compared with, themselves included.
        share: Their extra time as a share of the time of all these steps.
    """

    step: I64
    counted: I64
    share: float


class _Item(NamedTuple):
    """What takes longer in slow steps: extra time per slow step."""

    place: str
    kind: str
    name: str
    extra_ns: float


@rule(name=NAME, title=TITLE)
def step_jitter(run: Run) -> list[Finding]:
    """Steps that take much longer than the median without more work, and what differs in them.

    What it finds: Steps of more than 1.25 medians, outliers included, whose extra time is at least
        10% of the time of all steps. At least eight steps are required.
    Why it matters: The median hides them. In distributed training each rank waits for the slowest,
        so the slow steps of all ranks add up.
    How it is found: By the periods of steps on their slowest GPU. What differs comes from table
        step_differences: for each operation, idle cause, call and range, its time in the slow steps
        minus its median over the analyzed steps. Samples add lines of the program. If the slow
        steps launch over 10% more operations than usual, and these explain most of the extra time,
        they are steps with more work.
    What to do: Look at what the finding names: a CPU gap points to garbage collection, logging or
        a checkpoint, a call to an allocation or synchronization. Longer kernels point to lower
        clocks, other programs on the GPU, or other shapes.
    Limits: The saving is not estimated, since the median step stays. Steps that wait for another
        process show that they waited, not why. Warm-up steps do not count.
    Source: Warpline.
    """
    run_steps = steps(run)
    usual_ns = usual_period_ns(run_steps)
    loops = [_slow(run_steps, usual_ns, loop) for loop in distinct_values(run_steps.loop).tolist()]
    slow = max(loops, key=lambda each: each.share, default=None)
    if slow is None or slow.share < _LEAST_SHARE:
        return []
    compared = slow.step[:_COMPARED]
    on_device = _items(run_steps, device_items(run.trace, run_steps), compared, usual_ns)
    on_host = [
        item
        for items in (
            call_items(run.trace, run_steps),
            range_items(run.trace, run_steps),
            line_items(run.trace, run_steps),
        )
        for item in _items(run_steps, items, _on_host(run_steps, compared), usual_ns)
    ]
    if _have_more_work(run, slow, on_device, usual_ns):
        return []
    marks = hints(run.trace).ranges
    return [_finding(run_steps, slow, usual_ns, on_device, on_host, marks)]


def _finding(
    run_steps: Steps,
    slow: _Slow,
    usual_ns: F64,
    on_device: list[_Item],
    on_host: list[_Item],
    marks: str,
) -> Finding:
    times = run_steps.period_ns[slow.step] / usual_ns[slow.step]
    low, high = float(times.min()), float(times.max())
    factor = f"{high:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    number, share = len(slow.step), format_ratio(slow.share)
    take = "steps take" if number > 1 else "steps takes"
    median = format_ns(float(usual_ns[slow.step[0]]))
    longer = [*on_device[:_NAMED], *sorted(on_host, key=_extra, reverse=True)[:_NAMED]]
    named = ", ".join(f"{_called(item)} {format_ns(item.extra_ns)}" for item in longer)
    what = f" Extra time per slow step: {named}." if named else ""
    window = run_steps.slowest_window[slow.step[:_SHOWN]]
    windows = zip(
        run_steps.window_start_ns[window].tolist(),
        run_steps.window_end_ns[window].tolist(),
        strict=True,
    )
    return Finding(
        NAME,
        "medium" if slow.share >= _MEDIUM_SHARE else "low",  # the median step stays as it is
        f"{number:,} of {len(slow.counted):,} {take} {factor} times the median",
        f"Slow steps cost {share} of the time: {number:,} of {len(slow.counted):,} {take}"
        f" {factor} times the median of {median}.{what}",
        (Evidence("the slow steps, slowest first", None, (), number, tuple(windows)),),
        _advice(on_device, marks),
        "Profile again: `warpline stats -r steps,step_differences` shows less jitter.",
        fix_cuda=_advice_in_cuda(on_device, marks),
        share=slow.share,
    )


def _slow(run_steps: Steps, usual_ns: F64, loop: int) -> _Slow:
    is_outlier = np.zeros(len(run_steps), np.bool_)
    is_outlier[[step for step, reason in run_steps.excluded if reason == OUTLIER]] = True
    counted = (run_steps.included | is_outlier) & (run_steps.slowest_window >= 0)
    rows = np.flatnonzero(counted & (run_steps.loop == loop))
    period, usual = run_steps.period_ns[rows], usual_ns[rows]
    slow = rows[period > _SLOW * usual]
    if len(rows) < _LEAST_STEPS or not len(slow):
        return _Slow(slow, rows, 0.0)
    extra = run_steps.period_ns[slow] - usual_ns[slow]
    slow = slow[np.argsort(-extra, kind="stable")]
    return _Slow(slow, rows, float(extra.sum()) / float(period.sum()))


def _on_host(run_steps: Steps, slow: I64) -> I64:
    """Return the steps whose CPU time made steps slow on their GPU.

    What the CPU does before the first operation of a step prolongs the period of the step before.
    """
    after = np.where(run_steps.has_next[slow], slow + 1, slow)
    host_ns = run_steps.host_period_ns
    return np.where(host_ns[after] > host_ns[slow], after, slow)


def _items(run_steps: Steps, items: StepItems, slow: I64, usual_ns: F64) -> list[_Item]:
    """Return what takes longer in slow steps, the most extra time first."""
    found = differences(run_steps, items, slow, usual_ns)
    extra = np.bincount(found.item, found.slow_ns - found.usual_ns, minlength=1) / len(slow)
    largest = np.argsort(-extra, kind="stable")
    items_found = []
    for item in largest[extra[largest] > 0].tolist():
        place, kind, name = items.names[item]
        items_found.append(_Item(place, kind, name, float(extra[item])))
    return items_found


def _have_more_work(run: Run, slow: _Slow, on_device: list[_Item], usual_ns: F64) -> bool:
    """Return whether additional operations, not idle time, explain the extra time."""
    run_steps = steps(run)
    of_step = step_of_operations(run)
    count = np.bincount(of_step[of_step >= 0], minlength=len(run_steps))
    if np.median(count[slow.step]) <= _MORE_WORK * np.median(count[slow.counted]):
        return False
    busy = sum(item.extra_ns for item in on_device if item.kind != "idle")
    compared = slow.step[:_COMPARED]
    extra = float(np.mean(run_steps.period_ns[compared] - usual_ns[compared]))
    return busy >= _EXPLAINS * extra


def _extra(item: _Item) -> float:
    return item.extra_ns


def _called(item: _Item) -> str:
    if item.kind == "idle":
        return f"idle time ({item.name})"
    is_named = item.place == "host" and item.kind != "line"  # a line is of CPU code
    return f"{item.name} (CPU)" if is_named else item.name


def _advice(on_device: list[_Item], marks: str) -> str:
    if on_device and on_device[0].kind == "idle":
        return (
            f"Locate the CPU work of these steps with {marks}. Typical: garbage collection"
            " (gc.freeze(), gc.disable()), logging, checkpoints, memory allocation, a slow batch."
        )
    return (
        "Check whether shapes vary, whether other programs use the GPU, and whether its clocks drop"
        " (nvidia-smi -q -d CLOCK,PERFORMANCE)."
    )


def _advice_in_cuda(on_device: list[_Item], marks: str) -> str:
    if on_device and on_device[0].kind == "idle":
        return (
            f"Locate the CPU work of these steps with {marks}. Typical: file output, memory"
            " allocation, locks, other threads on the same cores."
        )
    return ""
