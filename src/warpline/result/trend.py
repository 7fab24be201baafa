"""The result of `trend`: a metric over many runs, and where it changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

SCHEMA_VERSION = 1  # of the JSON that `trend` writes

LEAST_POINTS = 6  # that may show a change: two segments of three


@dataclass(frozen=True)
class Point:
    """One recording or baseline.

    Attributes:
        file: The file.
        title: Its short name.
        recorded_utc: When it was recorded; empty if unknown.
        value: The metric: the mean over its runs.
        runs: Number of runs.
        segment: Number of the segment that it belongs to: points between two changes.
    """

    file: str
    title: str
    recorded_utc: str
    value: float
    runs: int
    segment: int = 0


@dataclass(frozen=True)
class ChangePoint:
    """A lasting change.

    Attributes:
        index: Position of the first point after it.
        file: The file of that point.
        before: Mean of the segment before it.
        after: Mean of the segment after it.
        ratio: After divided by before.
        low: Lower bound of the ratio, 95%.
        high: Upper bound.
        p: Probability of a difference at least this large between two segments that were not
            chosen for it.
    """

    index: int
    file: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Trend:
    """A metric over many runs.

    Attributes:
        metric: The metric as it was named.
        unit: Unit of the values.
        points: In order of time.
        changes: In order of time.
        left_out: Files without the metric or that cannot be compared, and why.
    """

    metric: str
    unit: Literal["ns", "bytes"]
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``trend -f json``, described in docs/gate.md."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
