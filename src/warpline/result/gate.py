"""The result of `gate`: which limits hold between two sides, and which cannot be decided."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

SCHEMA_VERSION = 1  # of the JSON that `gate` writes

Outcome = Literal["pass", "regression", "undecided"]
MetricUnit = Literal["ns", "bytes", "findings"]
# The worst outcome of a metric is that of the gate.
STATUSES: dict[Outcome, int] = {"pass": 0, "undecided": 4, "regression": 3}


@dataclass(frozen=True)
class MetricResult:
    """One metric of both sides, and whether it stays within its limit.

    Attributes:
        metric: The metric as it was named: ``step``, ``kernel:*attention*``.
        limit: Its limit as it was named: ``3%``, ``2ms``; the severity or rule of findings.
        unit: Unit of `before` and `after`.
        before: Mean over runs; None if unknown.
        after: The same of the other side.
        change: Relative change if the limit is a share, otherwise the difference in the metric's
            unit; None if unknown.
        low: Lower bound of the change, 95%; None if nothing is known about the variance.
        high: Upper bound.
        p: Probability of a change at least this large if there were none; None if not tested.
        outcome: ``regression``: the change is above the limit, and not by chance. ``pass``: the
            whole interval is below the limit. Otherwise ``undecided``.
        reason: The facts in one sentence.
        runs_needed: About how many runs of each side would decide; None if decided or unknown.
    """

    metric: str
    limit: str
    unit: MetricUnit
    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None
    p: float | None
    outcome: Outcome
    reason: str
    runs_needed: int | None = None

    @property
    def is_relative(self) -> bool:
        """Whether the change is a share of the value before."""
        return self.limit.endswith("%")


@dataclass(frozen=True)
class GateSide:
    """One side of a gate.

    Attributes:
        title: Short name.
        runs: Number of runs.
        steps: Number of analyzed steps of all runs that are compared.
        source: What a step is.
        recorded_utc: When the first run was recorded; empty if unknown.
    """

    title: str
    runs: int
    steps: int
    source: str
    recorded_utc: str


@dataclass(frozen=True)
class Gate:
    """Whether a change stays within its limits.

    Attributes:
        outcome: The worst outcome of the metrics.
        sentence: The outcome with its main reason.
        metrics: The metrics, in the order in which they were named.
        before: The side that the limits are relative to.
        after: The other side.
        is_paired: Whether runs were made in turn, and compared as pairs.
        notes: What limits the result.
    """

    outcome: Outcome
    sentence: str
    metrics: tuple[MetricResult, ...]
    before: GateSide
    after: GateSide
    is_paired: bool
    notes: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status: 0 pass, 3 regression, 4 cannot decide."""
        return STATUSES[self.outcome]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``gate -f json``, described in docs/gate.schema.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "outcome": self.outcome,
            "status": self.status,
            "sentence": self.sentence,
            "before": asdict(self.before),
            "after": asdict(self.after),
            "is_paired": self.is_paired,
            "metrics": [
                {name: _finite(value) for name, value in asdict(item).items()}
                for item in self.metrics
            ],
            "notes": list(self.notes),
        }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
