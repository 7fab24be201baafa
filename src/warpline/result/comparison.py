"""The result of `compare`: what differs between two runs, and whether it is noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from warpline.result.diagnosis import PartKind, Severity
from warpline.result.tables import Document, Field, Numbers, Result, Values, column_of
from warpline.units import Unit

SCHEMA_VERSION = 1  # of the JSON that `compare` writes

Verdict = Literal["faster", "slower", "same", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# What became of an item: in both runs without or with a difference, in one only, or divided.
Change = Literal["same", "changed", "new", "gone", "split", "merged"]
CHANGES: tuple[Change, ...] = get_args(Change)
FindingChange = Literal["fixed", "new", "better", "worse", "same"]
Effect = Literal["forbids a verdict", "may be the reason", "information"]


PART_FIELDS = (
    Field("kind", Unit.NONE, "busy or idle.", "Kind"),
    Field("category", Unit.NONE, "Category, or cause of idle time.", "Category"),
    Field("before_ns", Unit.NS, "Time per step before.", "Before (ns)"),
    Field("after_ns", Unit.NS, "Time per step after.", "After (ns)"),
    Field("delta_ns", Unit.NS, "Difference; they sum to that of the step.", "Difference (ns)"),
    Field("meaning", Unit.NONE, "Meaning of the category.", "Meaning", is_detail=True),
)


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        title: Short name of its recordings.
        paths: The recordings.
        runs: Number of runs.
        steps: Number of analyzed steps of all runs.
        source: Source of the steps; ``none`` if no steps were detected.
        ranks: Number of ranks of a run.
    """

    title: str
    paths: tuple[str, ...]
    runs: int
    steps: int
    source: str
    ranks: int


@dataclass(frozen=True)
class StepChange:
    """The mean step of both sides.

    Attributes:
        before_ns: Mean over the analyzed steps, rounded.
        after_ns: The same of the other side.
        ratio: After divided by before, of the exact means.
        low: Lower bound of the ratio, 95%; None if the recordings do not show it.
        high: Upper bound.
        p: Probability of a difference this large if there were none; None if unknown.
    """

    before_ns: int
    after_ns: int
    ratio: float
    low: float | None
    high: float | None
    p: float | None

    @property
    def delta_ns(self) -> int:
        """The difference of the rounded means."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class PartChange:
    """A part of the mean step on both sides; the parts sum exactly to the step.

    Attributes:
        category: Category of the work, or cause of idle time.
        kind: busy or idle.
        before_ns: Time per step, rounded by largest remainder.
        after_ns: The same of the other side.
        meaning: Meaning of the category.
    """

    category: str
    kind: PartKind
    before_ns: int
    after_ns: int
    meaning: str = ""

    @property
    def delta_ns(self) -> int:
        """After minus before."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class Work:
    """Items of work on one side of a comparison, matched with the other side's.

    Attributes:
        names: Full names, distinct.
        shapes: Launch shapes, or memory kinds, distinct.
        count: Executions per step.
        ns: Time per step; of GPU work, as attributed in the breakdown.
        duration_ns: Mean duration of an execution.
        bytes: Bytes copied per step.
    """

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    count: float
    ns: float
    duration_ns: float
    bytes: float


@dataclass(frozen=True)
class ItemChange:
    """Items of work that correspond to one another.

    Attributes:
        kind: kernel, collective, copy, memset, graph, call, or range.
        category: Category of its time, of the side that has it; empty for calls and ranges.
        change: What became of it.
        matched_by: ``shape`` (name and shape), ``name``, ``signature`` (name without parameters),
            ``base`` (without template arguments), ``position`` (in the step); empty if one side
            has no counterpart.
        before: None if it is new.
        after: None if it is gone.
        p: Probability of a difference in time this large if there were none; None if not tested.
        is_significant: Whether the difference in time is significant, at a false discovery rate of
            5% among all items of the comparison.
    """

    kind: str
    category: str
    change: Change
    matched_by: str
    before: Work | None
    after: Work | None
    p: float | None = None
    is_significant: bool = False

    @property
    def delta_ns(self) -> float:
        """Difference in time per step."""
        return (self.after.ns if self.after else 0.0) - (self.before.ns if self.before else 0.0)

    @property
    def name(self) -> str:
        """The name to show: that of the side that has it, else of the first."""
        shown = self.after or self.before
        return shown.names[0] if shown and shown.names else ""


@dataclass(frozen=True)
class PhaseChange:
    """The time per step of the GPU work that was launched in ranges of one path.

    Attributes:
        path: Names of ranges, outermost first; empty for work outside ranges.
        before_ns: Time per step; None if the side has no such ranges.
        after_ns: The same of the other side.
        p: Probability of a difference this large if there were none; None if not tested, which
            needs several runs of each side.
        is_significant: Whether the difference is significant, at a false discovery rate of 5% among
            all phases.
    """

    path: tuple[str, ...]
    before_ns: int | None
    after_ns: int | None
    p: float | None = None
    is_significant: bool = False

    @property
    def delta_ns(self) -> int:
        """After minus before; a missing phase has no time."""
        return (self.after_ns or 0) - (self.before_ns or 0)


@dataclass(frozen=True)
class MemoryChange:
    """The peak of GPU memory on both sides.

    Attributes:
        allocator: Whose memory: framework or driver.
        before_bytes: Peak of the process and GPU that use most, the mean over runs; None if no
            allocations were recorded.
        after_bytes: The same of the other side.
    """

    allocator: str
    before_bytes: int | None
    after_bytes: int | None

    @property
    def delta_bytes(self) -> int | None:
        """After minus before; None if one is unknown."""
        if self.before_bytes is None or self.after_bytes is None:
            return None
        return self.after_bytes - self.before_bytes


@dataclass(frozen=True)
class FindingDifference:
    """What became of a finding.

    Attributes:
        rule: Name of the rule.
        change: fixed, new, better, worse, or same.
        title: Its title.
        severity: Its severity; the higher one of the two sides.
        before_saving_ns: Estimated saving per step before; None if none was predicted.
        after_saving_ns: The same of the other side.
    """

    rule: str
    change: FindingChange
    title: str
    severity: Severity
    before_saving_ns: int | None
    after_saving_ns: int | None


@dataclass(frozen=True)
class Fact:
    """A fact about the environment of both sides.

    Attributes:
        name: What it is.
        before: Its value; None if not recorded.
        after: The same of the other side.
        effect: What a difference means for the verdict; empty without a difference.
    """

    name: str
    before: str | None
    after: str | None
    effect: Effect | Literal[""]


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Document):
    """What differs between two runs, or two sets of runs.

    Attributes:
        verdict: faster, slower, same, or undecided.
        sentence: The verdict with its interval and its main reason.
        step: The mean step; None if a side has no comparable steps.
        parts: Parts of the step, the largest difference first; their differences sum exactly to
            that of the step.
        items: GPU operations and calls, the largest difference in time first.
        phases: Time by ranges, the largest difference first.
        memory: Peak GPU memory by allocator.
        findings: What became of each finding.
        environment: Facts about both sides that differ, or that decide what can be compared.
        limits: What the recordings cannot show.
        tolerance: Relative difference that counts as the same.
        before: The first side.
        after: The other side.
    """

    verdict: Verdict
    sentence: str
    step: StepChange | None
    parts: tuple[PartChange, ...]
    items: tuple[ItemChange, ...]
    phases: tuple[PhaseChange, ...]
    memory: tuple[MemoryChange, ...]
    findings: tuple[FindingDifference, ...]
    environment: tuple[Fact, ...]
    limits: tuple[str, ...]
    tolerance: float
    before: Side
    after: Side

    def __repr__(self) -> str:
        return f"<Comparison of {self.title}: {self.sentence}>"

    def parts_table(self) -> Result:
        """Return the parts as a table, for formats that show tables."""
        columns: dict[str, Values] = {
            "kind": column_of([part.kind for part in self.parts]),
            "category": column_of([part.category for part in self.parts]),
            **{
                name: Numbers(np.array([getattr(part, name) for part in self.parts], np.int64))
                for name in ("before_ns", "after_ns", "delta_ns")
            },
            "meaning": column_of([part.meaning for part in self.parts]),
        }
        key = ("kind", "category")
        return Result("comparison", "Parts of the step", PART_FIELDS, columns, key)

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
            "step": asdict(self.step) if self.step else None,
            "parts": [{**asdict(item), "delta_ns": item.delta_ns} for item in self.parts],
            "kernels": self._items("kernel", "graph"),
            "collectives": self._items("collective"),
            "copies": self._items("copy", "memset"),
            "calls": self._items("call"),
            "ranges": self._items("range"),
            "phases": [{**asdict(item), "delta_ns": item.delta_ns} for item in self.phases],
            "memory": [{**asdict(item), "delta_bytes": item.delta_bytes} for item in self.memory],
            "findings": [asdict(item) for item in self.findings],
            "environment": [asdict(item) for item in self.environment],
            "limits": list(self.limits),
            "warnings": list(self.warnings),
        }

    def _items(self, *kinds: str) -> list[Mapping[str, Any]]:
        return [
            {"name": item.name, **asdict(item), "delta_ns": item.delta_ns}
            for item in self.items
            if item.kind in kinds
        ]
