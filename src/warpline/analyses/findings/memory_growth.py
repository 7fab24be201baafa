"""memory-growth: GPU memory in use grows from step to step."""

from __future__ import annotations

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.growth import LEAST_STEPS, Leak, leaks
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.pressure import is_tight
from warpline.derived.memory.steps import memory_steps
from warpline.derived.memory.timelines import device_bytes, timeline_places
from warpline.result import Evidence, Finding, Skipped, rule
from warpline.trace import Run
from warpline.units import format_bytes, plural

NAME = "memory-growth"
TITLE = "GPU memory grows from step to step"

_LEAST_RATIO = 0.001  # of the memory in use, per step
_SHOWN = 5


@rule(name=NAME, title=TITLE)
def memory_growth(run: Run) -> list[Finding] | Skipped:
    """GPU memory in use that grows with each step.

    What it finds: Lines of the program that hold more memory at the end of at least 75% of the
        steps than at the end of the step before, and never less: on average, at least 0.1% of the
        memory in use more per step.
    Why it matters: The program runs out of memory, often after hours.
    How it is found: As in table memory_leaks: bytes in use at the end of each step but the first,
        by line, module and operator of their allocation.
    What to do: Drop references to tensors of earlier steps: collect loss.item() or loss.detach(),
        and limit caches.
    Limits: At least 4 steps are needed. A cache that fills up in the recorded steps looks the same.
        The line is where memory is allocated, not where it is kept.
    Source: PyTorch FAQ, "My model reports cuda runtime error(2): out of memory".
    """
    trace = run.trace
    timelines = replayed(trace).timelines
    counts = [len(memory_steps(run, number)) for number in range(len(timelines))]
    if counts and max(counts) < LEAST_STEPS:
        return Skipped(NAME, f"fewer than {LEAST_STEPS} steps are known", "record more steps")
    found = []
    for number in range(len(timelines)):
        in_use = int(timelines[number].allocated_bytes.max())
        own = [leak for leak in leaks(run) if leak.timeline == number]
        grown = [leak for leak in own if leak.step_bytes >= _LEAST_RATIO * in_use]
        if grown:
            found.append(_finding(run, number, grown))
    return found


def _finding(run: Run, number: int, grown: list[Leak]) -> Finding:
    trace = run.trace
    place = timeline_places(trace)[number]
    each = sum(leak.step_bytes for leak in grown)
    timeline, size = replayed(trace).timelines[number], device_bytes(trace, number)
    rest = size - int(timeline.allocated_bytes.max())
    full = f" {place} is full after {rest / each:,.0f} more steps." if rest > 0 else ""
    first = grown[0]
    at = first.line or first.module or first.operator
    where = f", most of it allocated at {at}" if at and len(grown) > 1 else ""
    where = where or (f", allocated at {at}" if at else "")
    kept = ""
    if first.kind == MemoryKind.ACTIVATION:
        kept = " These are activations: a kept loss or output keeps its whole graph."
    return Finding(
        NAME,
        "high" if is_tight(trace, number) else "medium",
        f"GPU memory grows by {format_bytes(round(each))} per step",
        f"On {place}, {format_bytes(round(each))} more is in use after each step{where}.{full}"
        f"{kept}",
        tuple(_evidence(run, leak) for leak in grown[:_SHOWN]),
        "Do not keep tensors of earlier steps: append loss.item() or loss.detach() to lists, not"
        " loss. Delete outputs before the next step, and limit caches.",
        "Profile again: `warpline stats -r memory_leaks` shows no rows.",
        fix_cuda="Free in each step what the step allocates.",
    )


def _evidence(run: Run, leak: Leak) -> Evidence:
    blocks = replayed(run.trace).blocks
    rows = blocks.row[leak.blocks]
    times = blocks.start_ns[leak.blocks][:_SHOWN].tolist()
    at = leak.line or leak.module or leak.operator or "an unknown place"
    many = plural(leak.grown_blocks, "block")
    return Evidence(
        f"{many}, {format_bytes(leak.grown_bytes)} in all, more at {at} in {leak.steps} steps",
        "allocator_event",
        tuple(rows[:_SHOWN].tolist()),
        len(rows),
        tuple((time, time) for time in times),
    )
