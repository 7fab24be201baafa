"""The verdict in one sentence, and what the recordings cannot show."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.comparison.environment import (
    CLOCK,
    FRAMEWORKS,
    GPU,
    GPUS,
    GRAPHS,
    PROFILER,
    RANKS,
    STEPS,
)
from warpline.comparison.statistics import ASSUMED_TEXT
from warpline.result.comparison import Fact, PartChange, StepChange, Verdict
from warpline.result.profile import Profile
from warpline.units import format_change, format_ns, format_ratio, plural

_FEW_STEPS = 10
INFERRED = "periodicity"  # the source of steps that are inferred from repeating launches
_WHY: dict[str, str] = {
    GPU: "the GPUs differ ({before} and {after})",
    GPUS: "the runs use different numbers of GPUs ({before} and {after})",
    RANKS: "the runs have different numbers of ranks ({before} and {after})",
    PROFILER: "different profilers slow the CPU differently ({before} and {after})",
    GRAPHS: "CUDA graphs were traced at different levels ({before} and {after}), which differ in"
    " overhead; record both with the same --cuda-graph-trace",
    STEPS: "a step is not the same work on both sides ({before} and {after})",
}


def judged_sentence(
    verdict: Verdict,
    step: StepChange,
    tolerance: float,
    *,
    means: str = "",
    needed: int | None = None,
) -> str:
    """Return the verdict of a statistical comparison.

    Args:
        verdict: The verdict.
        step: The mean steps, with an interval.
        tolerance: Relative difference that counts as the same.
        means: What the time is, if not that of a step.
        needed: The number of runs on each side that would decide; None if unknown.
    """
    assert step.low is not None
    assert step.high is not None
    times = f"{format_ns(step.before_ns)} to {format_ns(step.after_ns)} {means or 'per step'}"
    if verdict in ("faster", "slower"):
        change = f"{format_ratio(abs(1 - step.ratio))} {'less' if step.ratio < 1 else 'more'} time"
        ends = sorted((abs(1 - step.low), abs(1 - step.high)))
        interval = f"{ends[0] * 100:.1f} to {format_ratio(ends[1])}"
        return f"{verdict.capitalize()}: {change} ({interval}), {times}."
    interval = f"{_signed(step.low)} to {_signed(step.high)}"
    if verdict == "same":
        within = format_ratio(tolerance).replace(".0%", "%")
        return f"Same within {within}: {times}, {_signed(step.ratio)} ({interval})."
    said = f"Cannot decide: {times}, {_signed(step.ratio)} ({interval})."
    if needed is None:
        return said
    return f"{said} About {plural(needed, 'run')} of each side would decide."


def _signed(ratio: float) -> str:
    return format_change(ratio - 1)


def reason(
    parts: Sequence[PartChange], step: StepChange, path: Sequence[str], fixed: Sequence[str]
) -> str:
    """Return where most of a difference is.

    Args:
        parts: The parts, the largest difference first.
        step: The mean steps.
        path: The innermost ranges with most of the largest part's difference; may be empty.
        fixed: Rules whose findings are fixed.
    """
    same_sign = [item for item in parts if item.delta_ns * step.delta_ns > 0]
    if not same_sign:
        return ""
    part = same_sign[0]
    share = part.delta_ns / step.delta_ns
    inside = f" in {' > '.join(path[1:] if len(path) > 1 else path)}" if len(path) > 1 else ""
    name = f"{part.category}{inside}" if not part.meaning else f"{part.category} ({part.meaning})"
    name += inside if part.meaning else ""
    if share <= 1:
        said = f"{share * 100:.0f}% of it is {name}"
    else:
        more = "more" if part.delta_ns > 0 else "less"
        said = f"The main reason is {name}: {format_ns(abs(part.delta_ns))} {more}"
    return said + (f"; fixed: {', '.join(fixed)}." if fixed else ".")


def different_work(before: float, after: float) -> str:
    """Return the doubt about inferred steps with different numbers of GPU operations."""
    return (
        f"Inferred steps may not be the same work: {before:,.0f} GPU operations per step before,"
        f" {after:,.0f} after; name the steps with --steps-from to be sure."
    )


def forbidden_sentence(facts: Sequence[Fact], step: StepChange | None, busy: str) -> str:
    """Return why there is no verdict, what the times are, and what can be compared."""
    reasons = []
    for fact in facts:
        why = _WHY.get(fact.name, f"{fact.name} differs ({{before}} and {{after}})")
        if ", " in f"{fact.before}{fact.after}":  # the runs of a side differ
            why = why.replace("{before} and {after}", "{before} before, {after} after")
        reasons.append(why.format(before=fact.before, after=fact.after))
    said = f"Cannot decide: {'; '.join(reasons)}."
    if step is not None:
        said += f" {format_ns(step.before_ns)} and {format_ns(step.after_ns)} per step."
    return f"{said} {busy}".strip()


def limits(
    before: Sequence[Profile], after: Sequence[Profile], step: StepChange | None
) -> tuple[str, ...]:
    """Return what the recordings cannot show, one sentence each."""
    said: list[str] = []
    if set(before[0].paths) & set(after[0].paths):
        said.append("Both sides have a recording in common.")
    if len(before) == 1 and len(after) == 1 and step is not None and step.p is not None:
        said.append(
            "One run per side: how much runs of one program differ was not measured, but assumed"
            f" to be {ASSUMED_TEXT}. Compare several: --before A1 A2 A3 --after B1 B2 B3."
        )
    fewest = min(sum(len(run.step_ns) for run in side) for side in (before, after))
    if step is not None and step.p is not None and fewest < _FEW_STEPS:
        said.append(
            f"Only {plural(fewest, 'step')} analyzed on a side: record at least {_FEW_STEPS}."
        )
    inferred = [
        name
        for name, side in (("before", before), ("after", after))
        if any(run.source == INFERRED for run in side)
    ]
    if inferred:
        said.append(
            f"Steps {' and '.join(inferred)} are inferred from repeating launches, not named by"
            " ranges."
        )
    if {run.recorder for run in before} != {run.recorder for run in after}:
        said.append(
            "Idle time and CUDA API calls include the overhead of each profiler; GPU operations"
            " are comparable."
        )
    paths = [{path for run in side for path in run.phases if path} for side in (before, after)]
    if any(paths) and not paths[0] & paths[1]:
        said.append("The sides have no ranges in common, so phases are not compared.")
    known = {name for run in (*before, *after) for name, value in run.environment.items() if value}
    if known & FRAMEWORKS:
        known.add("framework version")
    wanted = ("driver", "framework version", "power limit", CLOCK)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        said.append(
            f"Not recorded, so not compared: {', '.join(unknown)}, and other work on the GPUs."
        )
    return tuple(said)
