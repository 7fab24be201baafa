"""step_parts: what each step's time on a GPU is spent on."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import partition
from warpline.derived.ranks.columns import rank_columns
from warpline.derived.ranks.steps import rank_steps
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "step_parts"
TITLE = "Busy and idle time of each step"
FIELDS = (
    Field("index", Unit.NONE, "Number of the step.", "No."),
    Field("part", Unit.NONE, "Category of work, or cause of idle time.", "Part"),
    Field("kind", Unit.NONE, "busy or idle.", "Kind"),
    Field("ns", Unit.NS, "Time of the step.", "Time (ns)"),
    Field("time_ratio", Unit.RATIO, "Share of the step.", "Of Step (%)", 100.0, 1),
    Field("start_ns", Unit.NS, "Start of the step on the GPU.", "Start (ns)", is_detail=True),
    Field("end_ns", Unit.NS, "End of the step on the GPU.", "End (ns)", is_detail=True),
    Field("rank", Unit.NONE, "The rank, if known.", "Rank"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("step", Unit.NONE, "Name of the step.", "Step"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=(*DEVICE_TABLES, "range"),
    arguments=STEP_ARGUMENT,
    missing_hint="profile a program with step ranges, using --trace=cuda,nvtx",
)
def step_parts(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Busy time by category and idle time by cause, of each step on each GPU.

    What it measures: For each process, GPU and step, the time of each category of work and of each
        cause of idle time.
    Why it matters: The mean step of table breakdown hides causes that occur in a few steps only.
    How it is computed: As table breakdown, for each step, including excluded ones. The parts of a
        step sum exactly to its time. Parts without time are not listed.
    Limits: Those of table breakdown.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    run_steps = steps(run)
    if not len(run_steps.window_step):
        reason = next(iter(run_steps.notes), "no steps found on a GPU")
        return Skipped(NAME, reason, "mark each step with a range")
    windows = rank_steps(run).windows
    ns = partition(trace, windows).ns
    row, part = np.nonzero(ns)
    length = (windows.end_ns - windows.start_ns)[row]
    is_busy = np.array([each.is_busy for each in TimePart])[part]
    step = windows.step[row]
    values: dict[str, Values] = {
        "index": Numbers(run_steps.index[step]),
        "part": Texts(part.astype(np.int32), TimePart.labels()),
        "kind": Texts(np.where(is_busy, 0, 1).astype(np.int32), ("busy", "idle")),
        "ns": Numbers(ns[row, part]),
        "time_ratio": Numbers(ns[row, part] / length),
        "start_ns": Numbers(windows.start_ns[row]),
        "end_ns": Numbers(windows.end_ns[row]),
        "step": Texts(run_steps.label.codes[step], run_steps.label.values),
        **rank_columns(trace, windows.process[row], windows.device[row]),
    }
    ordered = {field.name: values[field.name] for field in FIELDS}
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, ordered, ("pid", "gpu_index", "start_ns", "part"))
