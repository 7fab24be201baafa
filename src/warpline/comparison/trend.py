"""Where a metric changed, and stayed changed, over many runs.

Candidates are the change points of the library `ruptures`: those that divide the series into
segments with the least squared deviations, at a penalty for each. A segment has at least three
points, and a single outlier is no change. Of the candidates, those count that Student's t of the
segments without their outliers confirms, and that are larger than a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpline.comparison.gate import metric_values
from warpline.comparison.limits import Limit
from warpline.comparison.statistics import (
    DEFAULT_TOLERANCE,
    step_ratio,
    verdict,
)
from warpline.comparison.summary import Summary
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.result.trend import LEAST_POINTS, ChangePoint, Point, Trend

if TYPE_CHECKING:
    import ruptures
else:
    ruptures = lazy("ruptures")  # an extra

F64 = npt.NDArray[np.float64]
_LEAST_SEGMENT = 3
# Of a change point, in variances of the noise times the logarithm of the number of points: few
# series without a change have a candidate then.
_PENALTY = 4.0
_ALPHA = 1e-3  # below that of two given sides, because the place of a candidate was chosen
_OUTLIER = 5.0  # standard deviations from the median of the segment
_LEAST_NOISE = 1e-9  # of series that repeat exactly
_MAD_OF_NORMAL = 0.6745  # median absolute deviation of the normal distribution


def trend(
    sides: Sequence[tuple[str, Summary]], metric: Limit, *, tolerance: float = DEFAULT_TOLERANCE
) -> Trend:
    """Return the values of a metric in order of time, and the changes.

    Args:
        sides: Files and their summaries. Those without a time keep their places.
        metric: What to follow.
        tolerance: Relative change that does not count.

    Raises:
        UsageError: No file has the metric.
    """
    points: list[Point] = []
    left_out: list[tuple[str, str]] = []
    for file, side in _in_order(sides):
        runs = metric_values(side, metric)
        if isinstance(runs, str):
            left_out.append((file, runs))
            continue
        value = float(np.mean([np.mean(run) for run in runs]))
        if value <= 0.0:
            left_out.append((file, f"{metric.metric} is 0"))
            continue
        points.append(Point(file, side.title, side.recorded_utc, value, side.runs))
    if not points:
        why = left_out[0][1] if left_out else "no files"
        raise UsageError(f"no file has {metric.metric}: {why}", hint="name another --metric")
    values = np.array([point.value for point in points])
    changes = _changes(points, values, tolerance)
    firsts = [change.index for change in changes]
    segments = np.searchsorted(firsts, np.arange(len(points)), side="right").tolist()
    return Trend(
        metric=metric.metric,
        unit="bytes" if metric.kind == "memory-peak" else "ns",
        points=tuple(
            replace(point, segment=segment) for point, segment in zip(points, segments, strict=True)
        ),
        changes=changes,
        left_out=tuple(left_out),
    )


def _in_order(sides: Sequence[tuple[str, Summary]]) -> list[tuple[str, Summary]]:
    """Return the files by time if all have one, otherwise as they are."""
    if all(side.recorded_utc for _, side in sides):
        return sorted(sides, key=lambda item: item[1].recorded_utc)
    return list(sides)


def _changes(points: Sequence[Point], values: F64, tolerance: float) -> tuple[ChangePoint, ...]:
    """Return the candidates that are confirmed by the segments beside them."""
    sd = _noise(np.log(values))
    borders = [0, *_candidates(np.log(values), sd), len(values)]
    while len(borders) > 2:
        found = [
            _change(
                points[at], at, _usual(values[low:at], sd), _usual(values[at:high], sd), tolerance
            )
            for low, at, high in zip(borders, borders[1:], borders[2:], strict=False)
        ]
        doubted = [place for place, (_, is_shown) in enumerate(found) if not is_shown]
        if not doubted:
            return tuple(change for change, _ in found)
        # Without the least certain one, its neighbors have longer segments to be judged by.
        del borders[1 + max(doubted, key=lambda place: found[place][0].p)]
    return ()


def _change(
    point: Point, index: int, before: F64, after: F64, tolerance: float
) -> tuple[ChangePoint, bool]:
    """Return the change between two segments, and whether it is confirmed."""
    estimate = step_ratio([*before[:, None]], [*after[:, None]])
    change = ChangePoint(
        index=index,
        file=point.file,
        before=float(before.mean()),
        after=float(after.mean()),
        ratio=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        p=estimate.p,
    )
    is_shown = verdict(estimate, tolerance) in ("faster", "slower") and estimate.p <= _ALPHA
    return change, is_shown


def _noise(logs: F64) -> float:
    """Return the standard deviation of a point, from successive ones: changes hardly count."""
    if len(logs) < LEAST_POINTS:
        return 0.0
    steps = np.diff(logs)
    mad = float(np.median(np.abs(steps - np.median(steps))))
    return max(mad / _MAD_OF_NORMAL / math.sqrt(2.0), _LEAST_NOISE)


def _usual(values: F64, sd: float) -> F64:
    """Return the values of a segment without its outliers; at least half of them."""
    logs = np.log(values)
    distance = np.abs(logs - np.median(logs))
    usual: F64 = values[distance <= max(_OUTLIER * sd, 3.0 * float(np.median(distance)))]
    return usual


def _candidates(logs: F64, sd: float) -> list[int]:
    """Return the positions at which a segment may begin, ascending.

    Raises:
        UsageError: The library is not installed.
    """
    if len(logs) < LEAST_POINTS:
        return []
    try:
        search = ruptures.KernelCPD(kernel="linear", min_size=_LEAST_SEGMENT)
    except ImportError:
        raise UsageError(
            "trend needs the library ruptures", hint="pip install 'warpline[trend]'"
        ) from None
    smooth = logs.copy()  # single outliers removed; an edge between two levels stays where it is
    smooth[1:-1] = np.median(np.stack([logs[:-2], logs[1:-1], logs[2:]]), axis=0)
    found = search.fit(smooth[:, None]).predict(pen=_PENALTY * math.log(len(logs)) * sd * sd)
    return [int(at) for at in found if at < len(logs)]
