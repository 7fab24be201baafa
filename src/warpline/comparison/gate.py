"""Whether the second of two sides stays within limits that the first one sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from warpline.comparison.environment import (
    GPU,
    GPUS,
    GRAPHS,
    PROFILER,
    RANKS,
    STEPS,
    similar_counts,
)
from warpline.comparison.limits import FINDING, Limit
from warpline.comparison.sentences import INFERRED, different_work
from warpline.comparison.statistics import (
    ALPHA,
    ASSUMED_TEXT,
    DifferenceEstimate,
    RatioEstimate,
    runs_to_decide,
    step_difference,
    step_ratio,
)
from warpline.comparison.summary import COMMAND, CPU, MOST_KERNELS, Summary, at_least
from warpline.result.diagnosis import SEVERITIES
from warpline.result.gate import STATUSES, Gate, GateSide, MetricResult, MetricUnit, Outcome
from warpline.units import format_bytes, format_change, format_ns, plural

# Facts whose difference no statistics can separate from a change of the program.
_SAME = (GPU, GPUS, RANKS, PROFILER, GRAPHS)
_EXPOSED = "busy:collective"
_MEMORY = "record with --cuda-memory-usage=true, or profile_memory=True of torch.profiler"
_FEW_STEPS = 10
_NAMED = 3  # of the kernels or parts that a pattern could have matched


class _Values(NamedTuple):
    """A metric of one side: for each run, one value or the values of its steps."""

    runs: list[Sequence[float]]

    @property
    def mean(self) -> float:
        return float(np.mean([np.mean(values) for values in self.runs]))


def judge(before: Summary, after: Summary, limits: Sequence[Limit], *, paired: bool) -> Gate:
    """Return whether each metric stays within its limit.

    With several limits, each is tested at a share of `ALPHA`, so that the whole gate fails without
    a change with at most that probability.

    Args:
        before: The side that the limits are relative to.
        after: The other side.
        limits: At least one.
        paired: Whether the first run of each side were made in turn, and so on.
    """
    is_paired = paired and before.runs == after.runs and before.runs > 1
    why_not = _incomparable(before, after)
    results = []
    for limit in limits:
        if limit.kind == FINDING:
            results.append(_findings(before, after, limit))
        elif why_not:
            results.append(_unknown(limit, why_not))
        else:
            alpha = ALPHA / sum(item.kind != FINDING for item in limits)
            results.append(_judged(before, after, limit, paired=is_paired, alpha=alpha))
    why = f"all {len(results)} metrics are within their limits"
    doubt = "" if why_not else _doubt(before, after)
    order: list[Outcome] = ["regression", "undecided", "pass"]
    worst = min(results, key=lambda item: order.index(item.outcome))
    said = {"pass": "Pass", "regression": "Regression", "undecided": "Cannot decide"}
    others = sum(item.outcome == worst.outcome for item in results) - 1
    more = f" (and {plural(others, 'other metric')})" if others and worst.outcome != "pass" else ""
    if worst.outcome != "pass" or len(results) == 1:
        why = f"{worst.reason}{more}"
    assert set(said) == set(STATUSES)
    return Gate(
        outcome=worst.outcome,
        sentence=f"{said[worst.outcome]}: {why}. {doubt}".strip(),
        metrics=tuple(results),
        before=_side(before),
        after=_side(after),
        is_paired=is_paired,
        notes=tuple(
            _notes(before, after, results, is_paired=is_paired),
        ),
    )


def _judged(
    before: Summary, after: Summary, limit: Limit, *, paired: bool, alpha: float
) -> MetricResult:
    found = metric_values(before, limit), metric_values(after, limit)
    for why in found:
        if isinstance(why, str):
            return _unknown(limit, why)
    old, new = (_Values(runs) for runs in found if not isinstance(runs, str))
    if limit.kind in {"kernel", "busy", "idle"} and not old.mean and not new.mean:
        return _unknown(limit, _no_match(limit, after))
    if limit.kind == "memory-peak" and before.runs == after.runs == 1:
        return _exact(limit, old.mean, new.mean)
    if limit.kind != "step" and before.runs == after.runs == 1:
        # One value of a run has no variance of its own; that between runs is assumed.
        old, new = (_Values([[*side.runs[0]] * 2]) for side in (old, new))
    shares = _cpu_share(before, limit), _cpu_share(after, limit)
    is_ratio = limit.is_relative and all(min(side.runs[0]) > 0 for side in (old, new))
    is_ratio = is_ratio and all(np.mean(run) > 0 for side in (old, new) for run in side.runs)
    if is_ratio:
        estimate = step_ratio(old.runs, new.runs, paired=paired, cpu_shares=shares)
        return _by_ratio(limit, old, new, estimate, alpha=alpha)
    difference = step_difference(old.runs, new.runs, paired=paired, cpu_shares=shares)
    return _by_difference(limit, old, new, difference, alpha=alpha)


def _cpu_share(side: Summary, limit: Limit) -> float:
    """Return what share of a metric the CPU determines."""
    if limit.kind == "step":
        return side.cpu_share
    return float(limit.kind in {"idle", "exposed-communication"})


def _by_ratio(
    limit: Limit, old: _Values, new: _Values, found: RatioEstimate, *, alpha: float
) -> MetricResult:
    outcome = _outcome(found, found.ratio - 1.0, found.high - 1.0, limit.value, alpha)
    needed = None
    if outcome == "undecided":
        needed = runs_to_decide(
            math.log(found.ratio), math.log1p(limit.value), found.spread, alpha=alpha
        )
    change = found.ratio - 1.0, found.low - 1.0, found.high - 1.0
    return _result(limit, old, new, change, found, outcome, needed)


def _by_difference(
    limit: Limit, old: _Values, new: _Values, found: DifferenceEstimate, *, alpha: float
) -> MetricResult:
    """Judge an absolute limit; or a relative one where a ratio of runs would divide by 0."""
    most = limit.value * old.mean if limit.is_relative else limit.value
    outcome = _outcome(found, found.delta, found.high, most, alpha)
    needed = None
    if outcome == "undecided" and most > 0:
        needed = runs_to_decide(found.delta, most, found.spread, alpha=alpha)
    scale = old.mean if limit.is_relative else 1.0
    change = [
        value / scale if scale else math.copysign(math.inf, value) if value else 0.0
        for value in (found.delta, found.low, found.high)
    ]
    return _result(limit, old, new, (change[0], change[1], change[2]), found, outcome, needed)


def _outcome(
    found: RatioEstimate | DifferenceEstimate,
    change: float,
    high: float,
    most: float,
    alpha: float,
) -> Outcome:
    if high <= most:
        return "pass"
    return "regression" if change > most and found.p <= alpha else "undecided"


def _result(
    limit: Limit,
    old: _Values,
    new: _Values,
    change: tuple[float, float, float],
    found: RatioEstimate | DifferenceEstimate,
    outcome: Outcome,
    needed: int | None,
) -> MetricResult:
    runs = max(found.spread.runs)
    needed = None if needed is None else max(needed, runs + 1)
    said = f"{limit.metric} {change_text(limit, *change)}, limit {limit.text}"
    if needed is not None:
        said += f"; about {plural(needed, 'run')} of each side would decide"
    elif outcome == "undecided":
        said += "; more runs are needed than can be estimated"
    return MetricResult(
        metric=limit.metric,
        limit=limit.text,
        unit=_unit(limit),
        before=old.mean,
        after=new.mean,
        change=change[0],
        low=change[1] if math.isfinite(change[1]) else None,
        high=change[2] if math.isfinite(change[2]) else None,
        p=found.p,
        outcome=outcome,
        reason=said,
        runs_needed=needed,
    )


def change_text(limit: Limit, change: float, low: float, high: float) -> str:
    """Return a change with its interval: ``+3.4% (+2.1% to +4.8%)``."""
    texts = [_signed(limit, value) for value in (change, low, high)]
    if not math.isfinite(low) or not math.isfinite(high):
        return f"{texts[0]} (interval unknown)"
    return texts[0] if low == high else f"{texts[0]} ({texts[1]} to {texts[2]})"


def _signed(limit: Limit, value: float) -> str:
    if limit.is_relative:
        return "new" if math.isinf(value) else format_change(value)
    size = format_bytes(abs(value)) if _unit(limit) == "bytes" else format_ns(abs(value))
    return f"{'-' if value < 0 else '+'}{size}"


def _exact(limit: Limit, old: float, new: float) -> MetricResult:
    """Judge a number that a program repeats exactly, such as its peak memory."""
    delta = new - old
    change = delta if not limit.is_relative else delta / old if old else math.inf
    outcome: Outcome = "regression" if delta > 0 and change > limit.value else "pass"
    said = f"{limit.metric} {_signed(limit, change if delta else 0.0)}, limit {limit.text}"
    return MetricResult(
        limit.metric, limit.text, _unit(limit), old, new, change, None, None, None, outcome, said
    )


def _findings(before: Summary, after: Summary, limit: Limit) -> MetricResult:
    """Judge findings that are new, or more severe than before."""

    def chosen(side: Summary) -> set[str]:
        if limit.pattern in SEVERITIES:
            grave = at_least(next(word for word in SEVERITIES if word == limit.pattern))
            return {rule for rule, severity in side.findings.items() if severity in grave}
        return {rule for rule in side.findings if rule == limit.pattern}

    if COMMAND in (before.source, after.source):
        return _unknown(limit, "commands that were only timed have no findings")
    if _kind(before.source) != _kind(after.source):  # rules need the steps and the work of the GPU
        return _unknown(limit, _incomparable(before, after) or "")
    old, new = chosen(before), chosen(after)
    added = sorted(new - old)
    said = f"new finding{'s' * (len(added) > 1)}: {', '.join(added)}" if added else ""
    what = limit.pattern if limit.pattern in SEVERITIES else ""
    return MetricResult(
        metric=FINDING,
        limit=limit.text,
        unit="findings",
        before=float(len(old)),
        after=float(len(new)),
        change=float(len(added)),
        low=None,
        high=None,
        p=None,
        outcome="regression" if added else "pass",
        reason=said or f"no new {what or limit.pattern} finding",
    )


def _unknown(limit: Limit, why: str) -> MetricResult:
    return MetricResult(
        metric=limit.metric,
        limit=limit.text,
        unit="findings" if limit.kind == FINDING else _unit(limit),
        before=None,
        after=None,
        change=None,
        low=None,
        high=None,
        p=None,
        outcome="undecided",
        reason=why if limit.kind == "step" else f"{limit.metric}: {why}",
    )


def _no_match(limit: Limit, side: Summary) -> str:
    """Return that a pattern matches nothing, and what it could have matched."""
    if limit.kind == "kernel":
        what, values = "kernel", side.kernels_ns
    else:
        what, start = f"{limit.kind} time", f"{limit.kind}:"
        values = {
            name.removeprefix(start): ns
            for name, ns in side.parts_ns.items()
            if name.startswith(start)
        }
    longest = sorted(values, key=lambda name: -sum(values[name]))[:_NAMED]
    return f"no {what} matches" + (f"; longest are {', '.join(longest)}" if longest else "")


def _unit(limit: Limit) -> MetricUnit:
    return "bytes" if limit.kind == "memory-peak" else "ns"


def metric_values(side: Summary, limit: Limit) -> list[Sequence[float]] | str:
    """Return the values of a metric of each run, or why they are unknown.

    Of steps, all of a run; of other metrics, one.
    """
    if limit.kind == "step":
        return [*side.step_ns]
    if limit.kind == "memory-peak":
        if not side.memory_peak_bytes:
            return f"{side.title} has no allocations: {_MEMORY}"
        return [[peak] for peak in side.memory_peak_bytes]
    if not side.parts_ns:
        return f"{side.title} has no GPU work"
    if limit.kind == "kernel":
        found = _matching(side.kernels_ns, limit.pattern)
        if not found and not side.has_all_kernels:
            return f"not among the {MOST_KERNELS} longest kernels that {side.title} keeps"
    else:
        name = f"{limit.kind}:{limit.pattern}" if limit.pattern else _EXPOSED
        found = _matching(side.parts_ns, name)
    return [[sum(values)] for values in zip(*found, strict=True)] or [[0.0]] * side.runs


def _matching(values: Mapping[str, tuple[float, ...]], pattern: str) -> list[tuple[float, ...]]:
    lower = pattern.lower()
    return [numbers for name, numbers in values.items() if fnmatchcase(name.lower(), lower)]


def _incomparable(before: Summary, after: Summary) -> str | None:
    """Return why no times of the two sides can be compared; None if they can."""
    if _kind(before.source) != _kind(after.source):
        return (
            f"steps are {_kind(before.source)} in {before.title}, but {_kind(after.source)} in"
            f" {after.title}"
        )
    for name in _SAME:
        old, new = before.environment.get(name), after.environment.get(name)
        if old is not None and new is not None and old != new:
            return f"{name} differs ({old} and {new})"
    sides = (before, after)
    if [side.source == INFERRED for side in sides].count(True) == 1 and not _has_same_work(*sides):
        return different_work(*(float(np.mean(side.operations)) for side in sides)).rstrip(".")
    return None


def _has_same_work(before: Summary, after: Summary) -> bool:
    """Return whether steps have about as many GPU operations; True if that is unknown."""
    if not before.operations or not after.operations:
        return True
    return similar_counts(*(float(np.mean(side.operations)) for side in (before, after)))


def _doubt(before: Summary, after: Summary) -> str:
    """Return the doubt about inferred steps that are not the same work; empty for none."""
    if not before.source == after.source == INFERRED or _has_same_work(before, after):
        return ""
    return different_work(*(float(np.mean(side.operations)) for side in (before, after)))


def _kind(source: str) -> str:
    if source == COMMAND:
        return "times of whole commands"
    if source.startswith(CPU):
        return "timed on the CPU"
    return "whole recordings" if source == "none" else "timed on the GPU"


def _notes(
    before: Summary, after: Summary, results: Sequence[MetricResult], *, is_paired: bool
) -> list[str]:
    said = []
    is_tested = any(item.p is not None for item in results)
    if not is_tested:
        pass  # nothing depends on how runs vary
    elif before.runs == after.runs == 1:
        said.append(
            "One run of each side: how much runs of one program differ was not measured, but"
            f" assumed to be {ASSUMED_TEXT}."
        )
    elif not is_paired:
        said.append(
            "The sides did not run in turn: a change of the machine between them counts as a"
            " change of the program. Use --runs N --interleave."
        )
    few = [side for side in (before, after) if min(map(len, side.step_ns)) < _FEW_STEPS]
    if is_tested and few and few[0].source != COMMAND and before.runs == after.runs == 1:
        said.append(f"A run has fewer than {_FEW_STEPS} analyzed steps.")
    names = [
        name
        for name in dict.fromkeys([*before.environment, *after.environment])
        if name in before.environment
        and name in after.environment
        and name not in {*_SAME, "command", STEPS, "profiler version"}
        and before.environment[name] != after.environment[name]
    ]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        said.append(f"Different on the two sides: {', '.join(names[:3])}{more}.")
    return said


def _side(summary: Summary) -> GateSide:
    return GateSide(
        title=summary.title,
        runs=summary.runs,
        steps=sum(map(len, summary.step_ns)),
        source=summary.source,
        recorded_utc=summary.recorded_utc,
    )
