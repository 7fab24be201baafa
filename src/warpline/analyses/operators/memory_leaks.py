"""memory_leaks: GPU memory that grows from step to step."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.growth import LEAST_STEPS, Leak, leaks
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.steps import memory_steps
from warpline.derived.memory.timelines import history_notes, pids_of_timelines, timeline_places
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.texts import labelled
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Values,
    analysis,
    column_of,
)
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_leaks"
TITLE = "GPU memory that grows from step to step"
HINT = "profile at least 4 steps with --pytorch=modules,memory"
FIELDS = (
    Field("step_bytes", Unit.BYTES, "Growth per step.", "Per Step (MB)", 1e-6, 3),
    Field("step_blocks", Unit.COUNT, "Blocks per step.", "Blocks/Step", digits=1),
    Field("grown_bytes", Unit.BYTES, "Growth over these steps.", "Growth (MB)", 1e-6, 3),
    Field("grown_blocks", Unit.COUNT, "The same, in blocks.", "Blocks"),
    Field("steps", Unit.COUNT, "Number of steps in which it grows.", "Steps"),
    Field("kind", Unit.NONE, "What most of it is for.", "Kind"),
    Field("place", Unit.NONE, "GPU index.", "Place"),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
    Field("module", Unit.NONE, "Module that ran.", "Module"),
    Field("operator", Unit.NONE, "Outermost operator.", "Operator"),
    Field("line", Unit.NONE, "Line of the program that allocated.", "Line"),
)
KEY = ("place", "pid", "module", "operator", "line")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event",),
    arguments=STEP_ARGUMENT,
    missing_hint=HINT,
)
def memory_leaks(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU memory that outlives its step, and grows with each step.

    What it measures: For each line of the program, the blocks in use at the end of each step, where
        their size grows from step to step.
    Why it matters: Memory that grows ends in an out-of-memory error after hours. Typical causes are
        losses that are summed or kept in lists without .item() or .detach(), which keep their
        graph, and caches without a limit.
    How it is computed: At the end of each step but the first, the bytes in use are summed by line,
        module and operator of their allocation, or by size if none of these is known. A row grows
        if it shrinks in no step and grows in at least 75% of them. Fastest growth first.
    Limits: At least 4 steps are needed. Memory that grows less often, such as once per epoch, is
        not found. A line that both keeps and frees blocks counts with the difference. The line is
        where memory is allocated, not where it is kept.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    timelines = range(len(replayed(trace).timelines))
    name = ":".join((NAME, *arguments))
    if not any(len(memory_steps(run, number)) >= LEAST_STEPS for number in timelines):
        return Skipped(name, f"fewer than {LEAST_STEPS} steps are known", HINT)
    found = leaks(run)
    of = np.array([leak.timeline for leak in found], np.int64)
    columns: dict[str, Values] = {
        "step_bytes": Numbers(np.array([leak.step_bytes for leak in found], np.float64)),
        "step_blocks": Numbers(np.array([leak.step_blocks for leak in found], np.float64)),
        "grown_bytes": _integers(found, "grown_bytes"),
        "grown_blocks": _integers(found, "grown_blocks"),
        "steps": _integers(found, "steps"),
        "kind": labelled(
            np.array([int(leak.kind) for leak in found], np.int64), MemoryKind.labels()
        ),
        "place": labelled(of, timeline_places(trace)),
        "pid": Numbers(pids_of_timelines(trace)[of]),
        "module": column_of([leak.module for leak in found]),
        "operator": column_of([leak.operator for leak in found]),
        "line": column_of([leak.line for leak in found]),
    }
    return Result(name, TITLE, FIELDS, columns, KEY, history_notes(trace))


def _integers(found: tuple[Leak, ...], name: str) -> Numbers:
    return Numbers(np.array([getattr(leak, name) for leak in found], np.int64))
