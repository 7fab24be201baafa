"""The result of `compare` for counters: how profiled kernels differ between two sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from warpline.result.comparison import Fact, FindingDifference, Verdict
from warpline.result.kernel_findings import KernelFinding
from warpline.result.tables import Document, Field, Numbers, Result, Values, column_of
from warpline.units import Unit

SCHEMA_VERSION = 1  # of the JSON that `compare` writes for counters

KernelOutcome = Literal["faster", "slower", "same", "undecided", "new", "gone"]

_FIELDS = (
    Field("change", Unit.NONE, "faster, slower, same, undecided, new or gone.", "Change"),
    Field("kernel", Unit.NONE, "Kernel name, after.", "Kernel"),
    Field("shape", Unit.NONE, "Grid and block, after.", "Shape"),
    Field("before_ns", Unit.NS, "Mean time of a launch before.", "Before (ns)"),
    Field("after_ns", Unit.NS, "Mean time of a launch after.", "After (ns)"),
    Field("delta_ns", Unit.NS, "Difference.", "Difference (ns)"),
)


@dataclass(frozen=True)
class ProfiledKernel:
    """The profiled launches of a kernel and shape in one run.

    Attributes:
        name: Full name.
        short_name: Name without template arguments and parameters.
        shape: Grid and block.
        position: Place of its first launch.
        times_ns: Shape (launches,), durations in the order of launches.
        metrics: The median of each main metric, by its name.
        findings: Of the launch with the median duration.
    """

    name: str
    short_name: str
    shape: str
    position: int
    times_ns: npt.NDArray[np.float64]
    metrics: Mapping[str, float]
    findings: tuple[KernelFinding, ...]


@dataclass(frozen=True)
class CountedRun:
    """A run whose launches were profiled: what a comparison knows of it.

    Attributes:
        title: Short name of its recordings.
        paths: The recordings.
        kernels: Its kernels.
        environment: Facts about GPU, software and settings.
        warnings: About the recording.
    """

    title: str
    paths: tuple[str, ...]
    kernels: tuple[ProfiledKernel, ...]
    environment: Mapping[str, str | None]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class CountedSide:
    """One side of a comparison.

    Attributes:
        title: Short name of its recordings.
        paths: The recordings.
        runs: Number of runs.
        kernels: Number of kernels and shapes.
        launches: Number of profiled launches.
    """

    title: str
    paths: tuple[str, ...]
    runs: int
    kernels: int
    launches: int


@dataclass(frozen=True)
class KernelLaunches:
    """Launches of a kernel on one side, perhaps of several shapes.

    Attributes:
        names: Full names, distinct.
        shapes: Grids and blocks, distinct.
        launches: Number of profiled launches of all runs.
        time_ns: Mean time of a launch: over the launches of a run, then over runs.
    """

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    launches: int
    time_ns: float


@dataclass(frozen=True)
class MetricChange:
    """A metric of a kernel on both sides, the median of its launches.

    Attributes:
        metric: Its name.
        label: What users read.
        unit: ``ratio`` of the peak or of all accesses, ``B``, ``inst``...
        before: None if it was not collected.
        after: The same of the other side.
    """

    metric: str
    label: str
    unit: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class KernelDifference:
    """A kernel of both sides, or of one.

    Attributes:
        change: What became of it. Without a test, faster and slower are by the tolerance.
        matched_by: As for `ItemChange`.
        before: None if it is new.
        after: None if it is gone.
        ratio: Time after divided by time before; None if one is missing.
        low: Lower bound of the ratio, 95%; None without a test, which needs two launches per side.
        high: Upper bound.
        p: Probability of a difference this large if there were none; None without a test.
        metrics: Main metrics that were collected.
        findings: What became of each finding; savings are of one launch.
    """

    change: KernelOutcome
    matched_by: str
    before: KernelLaunches | None
    after: KernelLaunches | None
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    metrics: tuple[MetricChange, ...]
    findings: tuple[FindingDifference, ...]

    @property
    def name(self) -> str:
        """The name to show: that of the side that has it, else of the first."""
        shown = self.after or self.before
        return shown.names[0] if shown else ""

    @property
    def delta_ns(self) -> float:
        """Difference in the time of a launch."""
        return (self.after.time_ns if self.after else 0.0) - (
            self.before.time_ns if self.before else 0.0
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelComparison(Document):
    """How profiled kernels differ between two runs, or two sets of runs.

    Attributes:
        verdict: slower if a kernel is; undecided if that is unknown of one; else faster or same.
        sentence: How many kernels changed, and which one most.
        kernels: The kernels, the largest difference in profiled time first.
        environment: Facts about both sides.
        limits: What the recordings cannot show.
        tolerance: Relative difference that counts as the same.
        before: The first side.
        after: The other side.
    """

    verdict: Verdict
    sentence: str
    kernels: tuple[KernelDifference, ...]
    environment: tuple[Fact, ...]
    limits: tuple[str, ...]
    tolerance: float
    before: CountedSide
    after: CountedSide

    def __repr__(self) -> str:
        return f"<KernelComparison of {self.title}: {self.sentence}>"

    def kernels_table(self) -> Result:
        """Return the kernels as a table, for formats that show tables."""
        shown = [item.after or item.before for item in self.kernels]
        columns: dict[str, Values] = {
            "change": column_of([item.change for item in self.kernels]),
            "kernel": column_of([item.name for item in self.kernels]),
            "shape": column_of([", ".join(of.shapes) if of else "" for of in shown]),
            "before_ns": _times([item.before for item in self.kernels]),
            "after_ns": _times([item.after for item in self.kernels]),
            "delta_ns": Numbers(
                np.array([round(item.delta_ns) for item in self.kernels], np.int64)
            ),
        }
        return Result("kernels", "Profiled kernels", _FIELDS, columns, ("kernel", "shape"))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``compare --format json``, described in docs/compare.md."""
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "tolerance": self.tolerance,
            "before": asdict(self.before),
            "after": asdict(self.after),
            "kernels": [
                {"name": item.name, **asdict(item), "delta_ns": item.delta_ns}
                for item in self.kernels
            ],
            "environment": [asdict(item) for item in self.environment],
            "limits": list(self.limits),
            "warnings": list(self.warnings),
        }


def _times(sides: list[KernelLaunches | None]) -> Numbers:
    values = np.array([round(of.time_ns) if of else 0 for of in sides], np.int64)
    return Numbers(values, np.array([of is not None for of in sides], np.bool_))
