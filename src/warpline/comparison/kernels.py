"""The comparison of two sides whose kernels were profiled: times of launches, metrics, findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from warpline.comparison.environment import facts
from warpline.comparison.findings import finding_differences
from warpline.comparison.items import RATE
from warpline.comparison.matching import Listed, match
from warpline.comparison.statistics import DEFAULT_TOLERANCE, false_discovery, step_ratio
from warpline.comparison.statistics import verdict as verdict_of
from warpline.ops.arrays import F64
from warpline.presentation.kernel_names import short_name
from warpline.result.comparison import Fact, Verdict
from warpline.result.kernel_comparison import (
    CountedRun,
    CountedSide,
    KernelComparison,
    KernelDifference,
    KernelLaunches,
    KernelOutcome,
    MetricChange,
    ProfiledKernel,
)
from warpline.result.profile import ItemName
from warpline.result.tables import Result, Skipped
from warpline.units import format_ns, format_ratio, plural

_LEAST_LAUNCHES = 2  # of a run: fewer have no spread
_ONE_LAUNCH = (
    "Kernels with one profiled launch on a side are not tested: the launches of one kernel differ"
    " by some percent. Count more launches (--sample)."
)


class Meaning(NamedTuple):
    """How a metric is shown: what users read, and the unit of its values."""

    label: str
    unit: str


class _Kernel(NamedTuple):
    """A kernel and shape of one side: what each run has of it."""

    name: ItemName
    of_runs: tuple[ProfiledKernel, ...]

    @property
    def launches(self) -> int:
        return sum(len(of.times_ns) for of in self.of_runs)


def compare_kernels(
    before: Sequence[CountedRun],
    after: Sequence[CountedRun],
    metrics: Mapping[str, Meaning],
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    paired: bool = False,
    sections: tuple[Result | Skipped, ...] = (),
) -> KernelComparison:
    """Compare two sides.

    Args:
        before: Its runs, at least one.
        after: The runs of the other side, at least one.
        metrics: The metrics to compare, by name, in the order in which they are shown.
        tolerance: Relative difference that counts as the same.
        paired: Whether the runs were made in turn.
        sections: Tables of both sides that were compared by their keys.
    """
    old, new = _kernels(before), _kernels(after)
    differences = [
        _difference(
            [old[place] for place in found.before],
            [new[place] for place in found.after],
            found.matched_by,
            metrics,
            tolerance=tolerance,
            paired=paired,
        )
        for found in match(_listed(old), _listed(new))
    ]
    differences = _without_chance(differences)
    differences.sort(key=lambda item: (-abs(item.delta_ns) * _launches(item), item.name))
    environment = facts([run.environment for run in before], [run.environment for run in after])
    forbidden = [fact for fact in environment if fact.effect == "forbids a verdict"]
    limits = [_ONE_LAUNCH] if any(item.ratio and item.p is None for item in differences) else []
    sides = _side(before, old), _side(after, new)
    return KernelComparison(
        f"{sides[1].title} compared with {sides[0].title}",
        {},
        sections,
        tuple(dict.fromkeys(text for run in (*before, *after) for text in run.warnings)),
        verdict="undecided" if forbidden else _verdict(differences),
        sentence=_sentence(differences, forbidden),
        kernels=tuple(differences),
        environment=environment,
        limits=tuple(limits),
        tolerance=tolerance,
        before=sides[0],
        after=sides[1],
    )


def _kernels(runs: Sequence[CountedRun]) -> list[_Kernel]:
    """Return the kernels and shapes of the runs of a side."""
    found: dict[ItemName, list[ProfiledKernel]] = {}
    for run in runs:
        for of in run.kernels:
            name = ItemName("kernel", of.name, of.short_name, of.shape, "")
            found.setdefault(name, []).append(of)
    return [_Kernel(name, tuple(of_runs)) for name, of_runs in found.items()]


def _listed(kernels: Sequence[_Kernel]) -> Listed:
    return Listed(
        [of.name for of in kernels],
        [of.launches / len(of.of_runs) for of in kernels],
        [float(of.of_runs[0].position) for of in kernels],
    )


def _side(runs: Sequence[CountedRun], kernels: Sequence[_Kernel]) -> CountedSide:
    title = runs[0].title if len(runs) == 1 else f"{len(runs)} runs of {runs[0].title}"
    return CountedSide(
        title,
        tuple(path for run in runs for path in run.paths),
        len(runs),
        len(kernels),
        sum(of.launches for of in kernels),
    )


def _difference(
    before: Sequence[_Kernel],
    after: Sequence[_Kernel],
    matched_by: str,
    metrics: Mapping[str, Meaning],
    *,
    tolerance: float,
    paired: bool,
) -> KernelDifference:
    old, new = _work(before), _work(after)
    difference = KernelDifference(
        "new" if old is None else "gone",
        matched_by,
        old,
        new,
        *(None, None, None, None),
        _metrics(before, after, metrics),
        finding_differences(_main(before), _main(after)) if before and after else (),
    )
    if old is None or new is None:
        return difference
    times = _times(before), _times(after)
    ratio = new.time_ns / old.time_ns
    if any(len(run) < _LEAST_LAUNCHES for side in times for run in side):
        return replace(difference, change=_by_tolerance(ratio, tolerance), ratio=ratio)
    are_paired = paired and len(times[0]) == len(times[1])
    estimate = step_ratio(*times, paired=are_paired)
    return replace(
        difference,
        change=verdict_of(estimate, tolerance),
        ratio=estimate.ratio,
        low=estimate.low,
        high=estimate.high if math.isfinite(estimate.high) else None,
        p=estimate.p,
    )


def _by_tolerance(ratio: float, tolerance: float) -> KernelOutcome:
    largest = 1 + tolerance
    return "slower" if ratio > largest else "faster" if ratio * largest < 1 else "same"


def _times(kernels: Sequence[_Kernel]) -> list[F64]:
    """Return the times of launches in each run, of one or several shapes."""
    runs = max(len(of.of_runs) for of in kernels)
    return [
        np.concatenate([of.of_runs[run].times_ns for of in kernels if run < len(of.of_runs)])
        for run in range(runs)
    ]


def _work(kernels: Sequence[_Kernel]) -> KernelLaunches | None:
    if not kernels:
        return None
    return KernelLaunches(
        tuple(dict.fromkeys(of.name.name for of in kernels)),
        tuple(dict.fromkeys(of.name.shape for of in kernels)),
        sum(of.launches for of in kernels),
        float(np.mean([run.mean() for run in _times(kernels)])),
    )


def _main(kernels: Sequence[_Kernel]) -> Sequence[ProfiledKernel]:
    """Return the runs of the shape that takes most time: metrics and findings are its."""
    if not kernels:
        return ()
    return max(kernels, key=lambda of: sum(run.times_ns.sum() for run in of.of_runs)).of_runs


def _metrics(
    before: Sequence[_Kernel], after: Sequence[_Kernel], metrics: Mapping[str, Meaning]
) -> tuple[MetricChange, ...]:
    found = []
    for name, meaning in metrics.items():
        old, new = (
            [run.metrics[name] for run in _main(side) if name in run.metrics]
            for side in (before, after)
        )
        if old or new:
            means = (float(np.mean(values)) if values else None for values in (old, new))
            found.append(MetricChange(name, *meaning, *means))
    return tuple(found)


def _without_chance(differences: Sequence[KernelDifference]) -> list[KernelDifference]:
    """Return differences, undecided where among so many one of that size may be chance."""
    tested = [place for place, item in enumerate(differences) if item.p is not None]
    p_values = np.array([differences[place].p for place in tested], np.float64)
    chance = [
        place
        for place, is_found in zip(tested, false_discovery(p_values, RATE).tolist(), strict=True)
        if not is_found and differences[place].change in {"faster", "slower"}
    ]
    return [
        replace(item, change="undecided") if place in chance else item
        for place, item in enumerate(differences)
    ]


def _launches(item: KernelDifference) -> int:
    return max(of.launches for of in (item.before, item.after) if of is not None)


def _verdict(differences: Sequence[KernelDifference]) -> Verdict:
    tested = {item.change for item in differences if item.p is not None}
    if "slower" in tested:
        return "slower"
    untested = {item.change for item in differences if item.ratio and item.p is None}
    if "undecided" in tested or "slower" in untested or not (tested or untested):
        return "undecided"
    return "faster" if "faster" in tested | untested else "same"


def _sentence(differences: Sequence[KernelDifference], forbidden: Sequence[Fact]) -> str:
    """Return how many kernels changed, and which one most."""
    if forbidden:
        named = ", ".join(f"{fact.name}: {fact.before}, {fact.after}" for fact in forbidden)
        return f"Times of launches cannot be compared ({named})."
    counts = {
        change: sum(item.change == change for item in differences)
        for change in ("faster", "slower", "same", "undecided", "new", "gone")
    }
    said = ", ".join(f"{count} {change}" for change, count in counts.items() if count)
    first = next((item for item in differences if item.change in {"faster", "slower"}), None)
    kernels = plural(len(differences), "kernel")
    if first is None or first.ratio is None:
        return f"{kernels}: {said}." if said else "No kernels."
    assert first.before is not None
    assert first.after is not None
    more = "less" if first.ratio < 1 else "more"
    times = f"{format_ns(first.before.time_ns)} to {format_ns(first.after.time_ns)} per launch"
    fixed = [item.rule for item in first.findings if item.change == "fixed"]
    why = f"; fixed: {', '.join(fixed)}" if fixed else ""
    counted = f"{kernels}: {said}. " if len(differences) > 1 else ""
    return (
        f"{counted}{short_name(first.name)} takes"
        f" {format_ratio(abs(1 - first.ratio))} {more} time ({times}){why}."
    )
