"""rank_steps: time, delay and waits of each step on each rank."""

from __future__ import annotations

import numpy as np

from warpline.derived.ranks.columns import rank_columns
from warpline.derived.ranks.steps import rank_steps as find_rank_steps
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "rank_steps"
TITLE = "Steps of each rank"
FIELDS = (
    Field("rank", Unit.NONE, "The rank, if known.", "Rank"),
    Field("index", Unit.NONE, "Number of the step.", "No."),
    Field("device_ns", Unit.NS, "Time of the step on the GPU.", "GPU Time (ns)"),
    Field("behind_ns", Unit.NS, "How much longer than on the fastest rank.", "Behind (ns)"),
    Field("wait_ns", Unit.NS, "Time in which it waited for other ranks.", "Waited (ns)"),
    Field("start_ns", Unit.NS, "Start on the GPU.", "Start (ns)", is_detail=True),
    Field("end_ns", Unit.NS, "End on the GPU.", "End (ns)", is_detail=True),
    Field("analyzed", Unit.NONE, "yes, or no if the step is excluded.", "Analyzed"),
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
def rank_steps(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Time of each step on each rank, its delay, and its waits for other ranks.

    What it measures: For each process, GPU and step: the time on the GPU, how much longer it took
        than on the fastest rank, and how long it waited for other ranks in collectives.
    Why it matters: A rank that is slow in every step needs another cure than steps that are slow on
        all ranks. Ranks that wait long are not the slow ones.
    How it is computed: Times are those of table steps, for each GPU instead of the slowest one.
        Steps of different ranks belong together if they have the same number. Waits are those of
        table stragglers inside the step. Where several collectives wait at once, time counts once.
    Limits: Collectives make ranks equally long: then the delay shows in the waits of the others.
        Waits are known only in included steps whose collectives are recorded on all ranks.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    run_steps = steps(run)
    if not len(run_steps.window_step):
        reason = next(iter(run_steps.notes), "no steps found on a GPU")
        return Skipped(NAME, reason, "mark each step with a range")
    found = find_rank_steps(run)
    windows = found.windows
    included = run_steps.included[windows.step]
    values: dict[str, Values] = {
        "index": Numbers(run_steps.index[windows.step]),
        "device_ns": Numbers(windows.end_ns - windows.start_ns),
        "behind_ns": Numbers(found.behind_ns, found.has_peers),
        "wait_ns": Numbers(found.wait_ns, found.has_wait),
        "start_ns": Numbers(windows.start_ns),
        "end_ns": Numbers(windows.end_ns),
        "analyzed": Texts(np.where(included, 0, 1).astype(np.int32), ("yes", "no")),
        "step": Texts(run_steps.label.codes[windows.step], run_steps.label.values),
        **rank_columns(trace, windows.process, windows.device),
    }
    ordered = {field.name: values[field.name] for field in FIELDS}
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, ordered, ("pid", "gpu_index", "start_ns"))
