"""The errors of predictions for measured pairs: the figures of warpline/replay/calibration.py.

Usage: PYTHONPATH=src:benchmarks python benchmarks/blind/calibrate.py [FOLDER]

FOLDER has the results of both blind sets, and earlier.json: fixed steps divided by bad ones of the
other pairs of docs/findings.md. Prints the quantiles of each error, and how many measured steps and
ratios lie within the bounds that different figures give.

The recordings of these sets are gone, so bounds are computed from those that were predicted, for
which CPU time varied from 0.8 to 1.2 and GPU time from 0.95 to 1.08. How far the bounds of the step
without changes are apart gives its share of CPU time, and those after the changes likewise. Later
predictions (see predict.py) have bounds of steps and ratios, which score.py compares.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blind.harness import HERE, read_pairs
from blind.score import Row, named

from warpline.estimate import Estimate
from warpline.replay.calibration import MEASURED, Calibration

SETS = {
    "first, in turns": ("turns-today.json", "turns-times.json"),
    "second": ("second-blind.json", "second-times.json"),
}
# Only the steps before the fixes count: these predictions are of rules that have changed since.
SPEEDS = {"first, another time": ("blind.json", "blind-times.json"), **SETS}
KINDS = {
    "GPU work": (
        *("misaligned-gemm", "unfused-attention", "layout-copies", "unfused-epilogue"),
        *("cast-copies", "elementwise-fusion", "small-grids", "no-tensor-cores"),
    ),
    "waits": ("host-sync", "allocator", "pageable-copy"),
    "launches": ("graph-opportunity", "unfused-optimizer", "graph-recapture"),
    "CPU work": ("input-bound", "launch-bound"),
    "communication": ("exposed-communication",),
}
_THEN_HOST, _THEN_DEVICE = Estimate(0.8, 1.0, 1.2), Estimate(0.95, 1.0, 1.08)
_GPU_BOUND, _CPU_BOUND = 0.2, 0.6  # CPU time of the step
_BUSY = 0.93  # of the step, where kernels that remain limit the lower bound
_LEAST_SAVING = 0.001  # of the step
# Fitted to the first set and the earlier pairs, to be tested on the second set.
FIRST = Calibration(Estimate(0.57, 1, 1.1), Estimate(0.92, 1, 1.08), Estimate(0.84, 1, 2.57))


class Measured(NamedTuple):
    """A pair with a prediction.

    Attributes:
        rule: The rule that names the problem.
        before: The predicted step before the fix, in ms.
        after: The predicted step after it.
        busy: Share of the recorded step in which the GPU is busy.
        bad: The measured step before the fix.
        fixed: The measured step after it.
    """

    rule: str
    before: Estimate
    after: Estimate
    busy: float
    bad: float
    fixed: float


def rows(folder: Path, files: tuple[str, str]) -> Iterator[tuple[str, Row, float, float]]:
    """Yield the name of each pair, its prediction, and its measured steps."""
    predictions, times = (json.loads((folder / name).read_text()) for name in files)
    for name, row in predictions.items():
        bad, fixed = (statistics.median(times[name][variant]) for variant in ("bad", "fixed"))
        yield name, row, bad, fixed


def measured(folder: Path, files: tuple[str, str]) -> list[Measured]:
    """Return the pairs of a set whose problem was found with a saving."""
    pairs, found = read_pairs(), []
    for name, row, bad, fixed in rows(folder, files):
        item = named(pairs[name], row)
        if item is None:
            continue
        busy = re.search(r"GPU busy ([\d.]+)%", row["verdict"])
        found.append(
            Measured(
                item["rule"],
                Estimate(*row["unrecorded_ms"]),
                Estimate(*item["predicted_ms"]),
                float(busy[1]) / 100 if busy else 0.0,
                bad,
                fixed,
            )
        )
    return found


def speeds(folder: Path, files: tuple[str, str], low: float, high: float) -> list[float]:
    """Return measured steps divided by predicted ones of programs with a share of CPU time."""
    found = []
    for _, row, bad, _ in rows(folder, files):
        before = Estimate(*row["unrecorded_ms"])
        if low <= cpu_share(before) <= high:
            found.append(bad / before.central)
    return found


def cpu_share(step: Estimate) -> float:
    """Return the share of CPU time in a step, from how much shorter a faster CPU made it."""
    between = _THEN_DEVICE.low - _THEN_HOST.low
    return min(max((_THEN_DEVICE.low - step.low / step.central) / between, 0.0), 1.0)


def odds(predicted: float, fixed: float) -> float:
    """Return the time saved for each remaining one, relative to the prediction."""
    return (1 - fixed) / fixed / ((1 - predicted) / predicted)


def kind_of(rule: str) -> str:
    """Return what a rule's fix is about."""
    return next(kind for kind, rules in KINDS.items() if rule in rules)


def bounds(pair: Measured, errors: Calibration) -> tuple[Estimate, Estimate]:
    """Return the step after the fix, and its ratio to the step before, with bounds."""
    before, after = pair.before, pair.after
    of_cpu = cpu_share(before)
    is_graph = pair.rule == "graph-opportunity"
    cpu = 0.0 if of_cpu < _GPU_BOUND / 2 or is_graph else cpu_share(after)
    if cpu:  # what the change leaves open, without the speed of the CPU
        fewer = after.low / before.low / (after.central / before.central)
        more = after.high / before.high / (after.central / before.central)
    else:
        fewer = after.low / after.central / _THEN_DEVICE.low
        more = after.high / after.central / _THEN_DEVICE.high
    saving = errors.saving_ns(before.central - after.central, before.central)
    best = min(fewer, (before.central - saving.high) / after.central, 1.0)
    worst = max(more, (before.central - saving.low) / after.central, 1.0)
    # The profiler's overhead, too, is uncertain: by 3% and 2% of the step.
    low = cpu * errors.host_speed.low * 0.97 + (1 - cpu) * errors.device_speed.low
    high = cpu * errors.host_speed.high * 1.02 + (1 - cpu) * errors.device_speed.high
    ratio = after.central / before.central
    step = Estimate(after.central * best * low, after.central, after.central * worst * high)
    ratios = Estimate(ratio * best, ratio, ratio * worst)
    is_busy = kind_of(pair.rule) == "GPU work" and pair.busy > _BUSY
    if is_graph or is_busy:  # the kernels that remain are the limit
        least = after.low / _THEN_DEVICE.low
        step = step._replace(low=max(step.low, least * errors.device_speed.low))
        ratios = ratios._replace(low=max(ratios.low, min(least / before.central, ratio)))
    return step._replace(high=min(step.high, max(before.high, after.high))), ratios


def then(pair: Measured) -> tuple[Estimate, Estimate]:
    """Return what was predicted: the bounds of that time."""
    ratios = [of / ns for of, ns in zip(pair.after, pair.before, strict=True)]
    return pair.after, Estimate(min(ratios), ratios[1], max(ratios))


def inside(
    pairs: Sequence[Measured], predicted: Sequence[tuple[Estimate, Estimate]]
) -> tuple[int, int]:
    """Return how many measured steps and ratios lie within the bounds."""
    steps = (
        of.low <= pair.fixed <= of.high for pair, (of, _) in zip(pairs, predicted, strict=True)
    )
    ratios = (
        of.low <= pair.fixed / pair.bad <= of.high
        for pair, (_, of) in zip(pairs, predicted, strict=True)
    )
    return sum(steps), sum(ratios)


def coverage(pairs: Sequence[Measured], predicted: Sequence[tuple[Estimate, Estimate]]) -> str:
    """Format how many steps and ratios lie within the bounds, and the median widths of these."""
    widths = np.median([[(of.high - of.low) / of.central for of in row] for row in predicted], 0)
    return "; ".join(
        f"{what} {number} of {len(pairs)}, width {width:.0%}"
        for what, number, width in zip(
            ("steps", "ratios"), inside(pairs, predicted), widths, strict=True
        )
    )


def quantiles(values: Sequence[float]) -> str:
    """Format 10th percentile, median and 90th percentile."""
    low, central, high = np.exp(np.quantile(np.log(values), (0.1, 0.5, 0.9)))
    return f"{len(values):3}   {low:.2f}  {central:.2f}  {high:.2f}"


def all_odds(
    sets: Mapping[str, Sequence[Measured]], earlier: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """Return the odds of each set of pairs, by kind of fix."""
    found: dict[str, dict[str, list[float]]] = {
        name: defaultdict(list) for name in (*sets, "earlier")
    }
    for name, pairs in sets.items():
        for pair in pairs:
            ratio = pair.after.central / pair.before.central
            if ratio < 1 - _LEAST_SAVING:
                found[name][kind_of(pair.rule)].append(odds(ratio, pair.fixed / pair.bad))
    for row in earlier.values():
        found["earlier"][kind_of(row["rule"])].append(odds(row["predicted"], row["measured"]))
    return found


def main() -> None:
    """Print errors and coverage."""
    parser = argparse.ArgumentParser(description="Errors of predictions for measured pairs.")
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "results")
    folder = parser.parse_args().folder
    print("measured step without the fix / predicted one: number, 10%, median, 90%")
    by_share = {"CPU-bound": (_CPU_BOUND, 1.0), "GPU-bound": (0.0, _GPU_BOUND)}
    for what, shares in by_share.items():
        every = list[float]()
        for name, files in SPEEDS.items():
            # GPU-bound programs of the first set were recorded once.
            if what == "GPU-bound" and name not in SETS:
                continue
            found = speeds(folder, files, *shares)
            every += found
            print(f"{what}  {name:20} {quantiles(found)}")
        print(f"{what}  {'all':20} {quantiles(every)}")
    sets = {name: measured(folder, files) for name, files in SETS.items()}
    of_sets = all_odds(sets, json.loads((folder / "earlier.json").read_text()))
    print("\nmeasured / predicted time saved for each remaining one")
    for chosen in (("first, in turns", "earlier"), ("second",), tuple(of_sets)):
        print(" + ".join(chosen))
        every = []
        for kind in KINDS:
            of_kind = [value for name in chosen for value in of_sets[name].get(kind, ())]
            every += of_kind
            if of_kind:
                print(f"  {kind:16} {quantiles(of_kind)}")
        print(f"  {'all':16} {quantiles(every)}")
    print("\nwithin the bounds")
    for name, pairs in sets.items():
        print(f"{name:16} as predicted      {coverage(pairs, [then(pair) for pair in pairs])}")
        for what, errors in (("fit to the first", FIRST), ("fit to all", MEASURED)):
            print(f"{name:16} {what:17} {coverage(pairs, [bounds(p, errors) for p in pairs])}")


if __name__ == "__main__":
    main()
