"""step_phases: the GPU's time in the forward pass, the backward pass and the optimizer."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.module_times import step_slots
from warpline.derived.breakdown.overlaps import COMMUNICATION, COMPUTE, COPIES_AND_MEMSETS
from warpline.derived.breakdown.training_times import StepPhase, training_times
from warpline.derived.modules.missing import PHASES_HINT, without_phases
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.time_parts import BUSY, IDLE, TimePart
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Texts,
    analysis,
    column_of,
)
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "step_phases"
TITLE = "GPU time by phase of training"
FIELDS = (
    Field("phase", Unit.NONE, "Forward, backward, optimizer, data, other.", "Phase"),
    Field("time_ratio", Unit.RATIO, "Share of the GPUs' time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Busy and idle time in all analyzed steps.", "Total Time (ns)"),
    Field("step_ns", Unit.NS, "The same, mean per step.", "Per Step (ns)", digits=0),
    Field("busy_ns", Unit.NS, "Time during which its work runs.", "Busy (ns)"),
    Field("idle_ns", Unit.NS, "Idle time before its work.", "Idle (ns)"),
    Field("compute_ns", Unit.NS, "Compute time.", "Compute (ns)"),
    Field("communication_ns", Unit.NS, "Time in exposed collectives.", "Communication (ns)"),
    Field("copy_ns", Unit.NS, "Time in exposed copies and memsets.", "Copies (ns)"),
    Field("largest_part", Unit.NONE, "Category or idle cause with the most time.", "Largest Part"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=STEP_ARGUMENT,
    missing_hint=PHASES_HINT,
)
def step_phases(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time of PyTorch training by phase: forward, backward, optimizer, data, other.

    What it measures: For each phase, the busy time of its work and the idle time before it, in the
        analyzed steps or, without steps, in the whole recording.
    Why it matters: It shows which part of a training step to work on.
    How it is computed: As in table breakdown, each moment of a GPU belongs to one operation: the
        running one, or for idle time the one that ends the gap. Work is in the forward pass if it
        was launched in a call of a module, in the backward pass if by a function of autograd, also
        if such a function repeats forward work, in the optimizer phase if by step or zero_grad of
        an optimizer. Data is idle time in which the CPU loads or prepares data, in any phase, and
        copies to the GPU outside the other phases. Everything else is other: losses outside
        modules, gradient clipping. Rows sum to the time of the steps.
    Limits: Overlapped work counts once, as in table breakdown. Idle time before a phase's first
        operation may be caused by CPU work in the previous phase.
    Source: Warpline.
    """
    skipped = without_phases(NAME, trace)
    if skipped is not None:
        return skipped
    run = run_of(trace, arguments)
    times, slots = training_times(run), step_slots(run)
    rows = np.flatnonzero(times.any(axis=1))
    own, total = times[rows], times[rows].sum(axis=1)
    largest = np.argmax(own, axis=1).astype(np.int32) if len(rows) else np.zeros(0, np.int32)
    n_steps = int(np.count_nonzero(slots.steps >= 0))
    columns = {
        "phase": column_of([StepPhase.at(row).label for row in rows.tolist()]),
        "time_ratio": Numbers(total / max(int(times.sum()), 1)),
        "total_ns": Numbers(total),
        "step_ns": Numbers(total / max(n_steps, 1)),
        "busy_ns": Numbers(own[:, BUSY].sum(axis=1)),
        "idle_ns": Numbers(own[:, IDLE].sum(axis=1)),
        "compute_ns": Numbers(own[:, COMPUTE].sum(axis=1)),
        "communication_ns": Numbers(own[:, COMMUNICATION].sum(axis=1)),
        "copy_ns": Numbers(own[:, COPIES_AND_MEMSETS].sum(axis=1)),
        "largest_part": Texts(largest, TimePart.labels()),
    }
    notes = (f"{plural(n_steps, 'step')}; warm-up is excluded",) if n_steps else ()
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, columns, ("phase",), notes)
