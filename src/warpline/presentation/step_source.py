"""How the steps were found, how certain that is, and which ranges might be the steps instead."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from warpline.presentation.blocks import Block, Line
from warpline.result import Diagnosis, StepSummary
from warpline.units import plural

_LONGEST = 40  # characters of a name within a heading
_INFERRED = "inferred from repeating launches"


def step_source(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield doubts about steps that no range names, and the option that chooses others."""
    steps = diagnosis.steps
    if steps.source.startswith("range:"):
        return
    sentences = [f"{note[:1].upper()}{note[1:]}." for note in steps.notes]
    if steps.candidates:
        ranges = ", ".join(
            f"--steps-from {shlex.quote(item.name)} ({item.count:,} ranges)"
            for item in steps.candidates
        )
        sentences.append(f"To choose ranges as steps: {ranges}.")
    elif steps.is_inferred:
        sentences.append("To be sure, mark each step with a range.")
    elif steps.notes:
        sentences.append("To analyze them as steps: --steps-from launches.")
    if sentences:
        yield Line(" ".join(sentences))


def counted_steps(count: int, steps: StepSummary) -> str:
    """Return a number of steps with what they are: named ranges, or repeating launches."""
    counted, name = plural(count, "step"), _name_of(steps)
    if name:
        return f"{counted} ({name})"
    return f"{counted} {_INFERRED}" if steps.is_inferred else counted


def analyzed_steps(steps: StepSummary) -> str:
    """Return how many steps were analyzed, and what they are."""
    counted, name = plural(steps.count, "step"), _name_of(steps)
    return f"{counted} analyzed, {f'ranges {name}' if name else _INFERRED}"


def _name_of(steps: StepSummary) -> str:
    """Return the name of the ranges that are steps, empty without ranges."""
    kind, _, name = steps.source.partition(":")
    if kind != "range":
        return ""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
