"""The comparison of two sides, each one run or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from warpline.comparison import sentences
from warpline.comparison.environment import environment, operations_per_step, same_work
from warpline.comparison.findings import OF_RECORDING, finding_differences
from warpline.comparison.items import item_changes
from warpline.comparison.memory import memory_changes
from warpline.comparison.parts import mean_parts, part_changes
from warpline.comparison.phases import mean_phases, phase_changes, where
from warpline.comparison.statistics import DEFAULT_TOLERANCE, runs_needed, step_ratio
from warpline.comparison.statistics import verdict as verdict_of
from warpline.result.comparison import (
    Comparison,
    Fact,
    PartChange,
    Side,
    StepChange,
    Verdict,
)
from warpline.result.profile import PartName, Profile
from warpline.result.tables import Result, Skipped
from warpline.units import format_ns

_LEAST_STEPS = 2  # of a side: fewer have no spread


class _Judgment(NamedTuple):
    verdict: Verdict
    sentence: str
    step: StepChange | None


def compare(
    before: Sequence[Profile],
    after: Sequence[Profile],
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    paired: bool = False,
    sections: tuple[Result | Skipped, ...] = (),
) -> Comparison:
    """Compare two sides.

    Args:
        before: Its runs, at least one.
        after: The runs of the other side, at least one.
        tolerance: Relative difference that counts as the same.
        paired: Whether the runs were made in turn, so that the first of each side belong together.
        sections: Tables of both sides that were compared by their keys.
    """
    means = mean_parts(before), mean_parts(after)
    comparable = _incomparable(before, after) is None
    parts = part_changes(*means) if comparable else ()
    findings = finding_differences(before, after)
    if not comparable:  # without work or steps on a side, rules do not find what is there
        findings = tuple(item for item in findings if item.change == "new")
    facts = environment(before, after)
    phases = mean_phases(before), mean_phases(after)
    left = {item.rule for item in findings if item.change != "fixed"}
    fixed = [item.rule for item in findings if item.change == "fixed" and item.rule not in left]
    found = _judged(before, after, means, parts, facts, tolerance=tolerance, paired=paired)
    sentence = found.sentence
    if found.verdict in ("faster", "slower") and found.step is not None:
        path = where(_main(parts, found.step), *phases) if parts else ()
        named = [rule for rule in dict.fromkeys(fixed) if rule != OF_RECORDING]
        reason = sentences.reason(parts, found.step, path, named)
        sentence = f"{sentence} {reason}".strip()
    is_inferred = all(run.source == sentences.INFERRED for run in (*before, *after))
    if found.step is not None and is_inferred and not same_work(before, after):
        counts = operations_per_step(before), operations_per_step(after)
        sentence = f"{sentence} {sentences.different_work(*counts)}"
    items = item_changes(before, after, paired=paired) if comparable else ()
    return Comparison(
        title=f"{_title(before)} and {_title(after)}",
        meta={
            "paths": [path for run in (*before, *after) for path in run.paths],
            "unread": _unread((*before, *after)),
        },
        sections=sections,
        warnings=_warnings(before, after),
        verdict=found.verdict,
        sentence=sentence,
        step=found.step,
        parts=parts,
        items=items,
        phases=phase_changes(before, after, paired=paired) if comparable else (),
        memory=memory_changes(before, after),
        findings=findings,
        environment=facts,
        limits=sentences.limits(before, after, found.step),
        tolerance=tolerance,
        before=_side(before),
        after=_side(after),
    )


def _judged(
    before: Sequence[Profile],
    after: Sequence[Profile],
    means: tuple[Mapping[PartName, Fraction], Mapping[PartName, Fraction]],
    parts: Sequence[PartChange],
    facts: Sequence[Fact],
    *,
    tolerance: float,
    paired: bool,
) -> _Judgment:
    """Return the verdict, or why there is none."""
    why = _incomparable(before, after)
    if why is not None:
        return _Judgment("undecided", f"Cannot decide: {why}", None)
    old_ns, new_ns = (sum(side.values(), Fraction(0)) for side in means)
    step = StepChange(round(old_ns), round(new_ns), float(new_ns / old_ns), None, None, None)
    forbidding = [fact for fact in facts if fact.effect == "forbids a verdict"]
    if forbidding:
        said = sentences.forbidden_sentence(forbidding, step, _busy_in_words(parts))
        return _Judgment("undecided", said, step)
    if min(_values(side) for side in (before, after)) < _LEAST_STEPS:
        return _Judgment("undecided", _single(before, step), step)
    series = [[np.asarray(run.step_ns, np.float64) for run in side] for side in (before, after)]
    idle_shares = before[0].idle_share, after[0].idle_share
    estimate = step_ratio(series[0], series[1], paired=paired, cpu_shares=idle_shares)
    verdict = verdict_of(estimate, tolerance)
    step = StepChange(
        step.before_ns, step.after_ns, step.ratio, estimate.low, estimate.high, estimate.p
    )
    needed = runs_needed(estimate, tolerance)
    if needed is not None:  # fewer may do on average, but these did not
        needed = max(needed, max(estimate.spread.runs) + 1)
    said = sentences.judged_sentence(
        verdict,
        step,
        tolerance,
        means="" if before[0].has_steps else "in all",
        needed=needed,
    )
    return _Judgment(verdict, said, step)


def _incomparable(before: Sequence[Profile], after: Sequence[Profile]) -> str | None:
    """Return why the two sides have no times to compare; None if they have."""
    if not any(run.mean_ns for run in (*before, *after)):
        return "no GPU work was recorded. To compare steps on the CPU, use warpline gate."
    for name, side in (("before", before), ("after", after)):
        empty = [run.title for run in side if not run.mean_ns]
        if empty:
            return f"no GPU work was recorded {name} ({empty[0]})."
    has_steps = [[run.has_steps for run in side] for side in (before, after)]
    if any(has_steps[0] + has_steps[1]) and not all(has_steps[0] + has_steps[1]):
        without = next(run for run in (*before, *after) if not run.has_steps)
        return (
            f"no steps were detected in {without.title}, but they were in other recordings. Name"
            " the ranges that are steps with --steps-from NAME."
        )
    return None


def _values(side: Sequence[Profile]) -> int:
    """Return the number of independent values of a side: steps, or runs without steps."""
    return sum(len(run.step_ns) if run.has_steps else 1 for run in side)


def _single(before: Sequence[Profile], step: StepChange) -> str:
    what = "one step" if before[0].has_steps else "no steps were detected, and one whole recording"
    unit = "" if before[0].has_steps else " in all"
    return (
        f"Cannot decide: {what} on a side shows no variation."
        f" {format_ns(step.before_ns)} and {format_ns(step.after_ns)}{unit}."
    )


def _busy_in_words(parts: Sequence[PartChange]) -> str:
    busy = [part for part in parts if part.kind == "busy"]
    old, new = (sum(getattr(part, name) for part in busy) for name in ("before_ns", "after_ns"))
    if not old:
        return ""
    return f"GPU busy: {format_ns(old)} and {format_ns(new)} ({(new / old - 1) * 100:+.1f}%)."


def _main(parts: Sequence[PartChange], step: StepChange) -> PartChange:
    """Return the part with the largest difference in the direction of the step's."""
    same_sign = (item for item in parts if item.delta_ns * step.delta_ns > 0)
    return next(same_sign, parts[0])


def _side(runs: Sequence[Profile]) -> Side:
    return Side(
        title=_title(runs),
        paths=tuple(path for run in runs for path in run.paths),
        runs=len(runs),
        steps=sum(len(run.step_ns) for run in runs) if runs[0].has_steps else 0,
        source=", ".join(dict.fromkeys(run.source for run in runs)),
        ranks=max(run.ranks for run in runs),
    )


def _title(runs: Sequence[Profile]) -> str:
    first = runs[0]
    if len(runs) == 1:
        return first.title
    name = first.title if len(first.paths) < 2 else PurePath(first.paths[0]).name  # one of ranks
    return f"{name} and {sum(len(run.paths) for run in runs) - 1} more"


def _unread(runs: Sequence[Profile]) -> Mapping[str, int]:
    """Return the tables of the files that were not read, with the rows of all files."""
    rows: dict[str, int] = {}
    for run in runs:
        for table, count in run.unread.items():
            rows[table] = rows.get(table, 0) + count
    return rows


def _warnings(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[str, ...]:
    said = [f"{run.title}: {text}" for run in (*before, *after) for text in run.warnings]
    return tuple(dict.fromkeys(said))
