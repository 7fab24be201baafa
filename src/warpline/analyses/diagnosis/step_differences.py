"""step_differences: work that took longer than usual in the slowest steps."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_differences import (
    Differences,
    StepItems,
    call_items,
    device_items,
    differences,
    range_items,
    usual_period_ns,
)
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import Steps
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.errors import UsageError
from warpline.ops.arrays import F64, I64
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, format_ns

NAME = "step_differences"
TITLE = "Differences of the slowest steps"
FIELDS = (
    Field("step_extra_ns", Unit.NS, "Extra time of the step.", "Step Extra (ns)", digits=1),
    Field("extra_ns", Unit.NS, "Extra time of this item in the step.", "Extra (ns)", digits=1),
    Field("slow_ns", Unit.NS, "Time of this item in the step.", "Here (ns)"),
    Field("usual_ns", Unit.NS, "Median over the analyzed steps.", "Usual (ns)", digits=1),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("index", Unit.NONE, "Number of the slow step.", "No."),
    Field("step", Unit.NONE, "Name of the slow step.", "Step"),
    Field("place", Unit.NONE, "Whether this is GPU or CPU time.", "Where"),
    Field("kind", Unit.NONE, "Kernel, copy, idle cause, call, range...", "Kind"),
    Field("name", Unit.NONE, "Name of the item.", "Name"),
)
ARGUMENTS = {**STEP_ARGUMENT, "top": "number of slowest steps: top=N (default: 3)"}
_TOP = 3
# Periods above the median times this are slow.
_LEAST_EXTRA = 1.02


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments=ARGUMENTS,
    missing_hint="profile a program that uses a GPU with --trace=cuda,nvtx",
)
def step_differences(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Work that took longer than usual in the slowest steps.

    What it measures: For the slowest steps: operations and idle time on their slowest GPU, CUDA
        API calls, and ranges inside the step, each compared with its median over the analyzed
        steps.
    Why it matters: A few slow steps delay every process that waits for them. The differences show
        whether a kernel, a copy, a synchronization or CPU work is the reason.
    How it is computed: As in table breakdown, each moment of the step's period on its slowest GPU
        belongs to one operation or one cause of idle time, and so to exactly one row. Calls, and
        ranges directly inside the step's range, are CPU time of the step in which they began.
        Their rows may account for the same time again. Differences below 1% of the step's extra
        time are omitted, as are all but the 12 largest of a step.
    Limits: If a step is slow because of another process, the table only shows that it waited.
        Steps within 2% of the median are not slow. With few steps, the median is uncertain.
    Source: Warpline.
    """
    run_steps = find_steps(run_of(trace, arguments))
    if not len(run_steps):
        return Skipped(NAME, "no steps found", "mark each step with a range")
    if not run_steps.included[run_steps.slowest_window >= 0].any():
        return Skipped(NAME, "no step has both a start and an end", "record more steps")
    usual_ns = usual_period_ns(run_steps)
    slow = _slow_steps(run_steps, usual_ns, _top(arguments))
    parts = [
        device_items(trace, run_steps),
        call_items(trace, run_steps),
        range_items(trace, run_steps),
    ]
    rows = [differences(run_steps, part, slow, usual_ns) for part in parts]
    columns = _columns(trace, run_steps, usual_ns, parts, rows)
    key = ("pid", "index", "place", "kind", "name")
    notes = _notes(run_steps, slow, usual_ns)
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, columns, key, notes)


def _top(arguments: Arguments) -> int:
    named = [text.partition("=")[2] for text in arguments if text.startswith("top=")]
    if not named:
        return _TOP
    text = named[-1]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(
            f"{text!r} is not a number of steps", hint="use for example step_differences:top=5"
        )
    return int(text)


def _slow_steps(run_steps: Steps, usual_ns: F64, top: int) -> I64:
    """Return the steps with the most extra time, slowest first."""
    extra = run_steps.period_ns - usual_ns
    slow = np.flatnonzero(run_steps.period_ns > _LEAST_EXTRA * usual_ns)
    return slow[np.argsort(-extra[slow], kind="stable")][:top]


def _columns(
    trace: Trace, run_steps: Steps, usual_ns: F64, parts: list[StepItems], rows: list[Differences]
) -> dict[str, Values]:
    step, slow_ns, usual = (np.concatenate([part[at] for part in rows]) for at in (0, 2, 3))
    names = [
        times.names[item]
        for times, part in zip(parts, rows, strict=True)
        for item in part.item.tolist()
    ]
    whole = run_steps.period_ns[step] - usual_ns[step]
    place = np.repeat(np.arange(len(rows)), [len(part.step) for part in rows])
    order = np.lexsort((-(slow_ns - usual), place, step, -whole))
    pids = trace.columns("process", "pid")["pid"].values
    texts = [[names[row][at] for row in order.tolist()] for at in range(3)]
    step, slow_ns, usual = step[order], slow_ns[order], usual[order]
    return {
        "step_extra_ns": Numbers(whole[order]),
        "extra_ns": Numbers(slow_ns - usual),
        "slow_ns": Numbers(slow_ns),
        "usual_ns": Numbers(usual),
        "pid": Numbers(pids[run_steps.process[step]]),
        "index": Numbers(run_steps.index[step]),
        "step": Texts(run_steps.label.codes[step], run_steps.label.values),
        "place": _texts(texts[0]),
        "kind": _texts(texts[1]),
        "name": _texts(texts[2]),
    }


def _texts(texts: list[str]) -> Texts:
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return Texts(np.array([places[text] for text in texts], np.int32), [*places])


def _notes(run_steps: Steps, slow: I64, usual_ns: F64) -> tuple[str, ...]:
    usual = format_ns(float(np.median(usual_ns[np.isfinite(usual_ns)])))
    if not len(slow):
        return (f"no step is more than {_LEAST_EXTRA - 1:.0%} above the median of {usual}",)
    reasons = dict(run_steps.excluded)
    labels, is_numbered = run_steps.label.to_list(), len(run_steps.label.values) == len(run_steps)
    listed = [
        f"{labels[step]}"
        + ("" if is_numbered else f" no. {run_steps.index[step]}")
        + f" ({format_ns(int(run_steps.period_ns[step]))}"
        + (f", excluded: {reasons[step]})" if step in reasons else ")")
        for step in slow.tolist()
    ]
    slowest = "slowest step" if len(slow) == 1 else f"{len(slow)} slowest steps"
    return (f"the {slowest}: {', '.join(listed)}; median {usual}",)
