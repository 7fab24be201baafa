"""What a comparison needs to know about a run: its steps, their parts, and their work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from warpline.result.diagnosis import PartKind, Severity

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
# Time per step of the work launched in ranges, by path of names and by part (category, kind).
Phases: TypeAlias = Mapping[tuple[str, ...], Mapping[tuple[str, str], float]]


OF_CPU = ("call", "range")  # kinds of items that are not GPU work


def steps_in_words(source: str) -> str:
    """Return a source of steps as users read it: ``step_*`` for ``range:step_*``, or inferred."""
    if source.startswith("cpu:"):
        return f"{steps_in_words(source.removeprefix('cpu:'))} on the CPU"
    return ", ".join(  # of several runs
        "inferred" if one == "periodicity" else one.removeprefix("range:")
        for one in source.split(", ")
    )


class ItemName(NamedTuple):
    """What an item of work is.

    Attributes:
        kind: kernel, collective, copy, memset, graph, call, or range.
        name: Full name of the kernel, direction of the copy, or name of the function or range.
        short_name: Name of the kernel without template arguments and parameters.
        shape: Grid and block of the kernel, or the memory kinds of the copy; may be empty.
        category: Category of its time, as in the breakdown; empty for calls and ranges.
    """

    kind: str
    name: str
    short_name: str
    shape: str
    category: str


class Items(NamedTuple):
    """The work of a mean step by item.

    Attributes:
        names: What each item is.
        executions: Shape (items,), float64, per step.
        ns: Shape (items,), float64, time per step. For GPU work, the time attributed to it in the
            breakdown, so that the items of a category sum to its time.
        duration_ns: Shape (items,), float64, mean duration of an execution; 0 without any.
        bytes: Shape (items,), float64, bytes copied per step.
        position_ns: Shape (items,), float64, mean start after the start of the step.
        cell_item: Shape (cells,), int64, ascending: item of a cell.
        cell_place: Shape (cells,), int64, place of the step.
        cell_ns: Shape (cells,), float64, time of the item in that step.
    """

    names: tuple[ItemName, ...]
    executions: F64
    ns: F64
    duration_ns: F64
    bytes: F64
    position_ns: F64
    cell_item: I64
    cell_place: I64
    cell_ns: F64


class PartName(NamedTuple):
    """A part of a GPU's time: a category of busy time, or a cause of idle time."""

    category: str
    kind: PartKind
    meaning: str = ""


class Problem(Protocol):
    """A finding, of a run or of a kernel."""

    @property
    def rule(self) -> str:
        """Name of the rule."""

    @property
    def title(self) -> str:
        """Its title, perhaps with numbers."""

    @property
    def severity(self) -> Severity:
        """How much it matters."""

    @property
    def saving_ns(self) -> int | None:
        """Estimated saving; None if unknown."""


@dataclass(frozen=True)
class Profile:
    """One run, as a side of a comparison.

    Attributes:
        title: Short name of its recordings.
        paths: The recordings.
        source: Source of the steps, as in `StepSummary`: ``none`` if no steps were detected.
        step_ns: Shape (steps,), float64, the time of each analyzed step: the mean over ranks.
            Without steps, of each recorded window. Empty without GPU work.
        parts: Exact mean time per step by part; the values sum to the mean step.
        items: GPU operations and calls by item.
        phases: Time per step of the work launched in ranges.
        findings: What the rules found.
        environment: Facts about machine, software and settings, by name; None if not recorded.
        ranks: Number of ranks: processes on GPUs.
        recorder: Name of the profiler, such as ``Nsight Systems``.
        memory_peak_bytes: Peak GPU memory of the process and GPU that use most, by allocator
            (framework, driver); empty if no allocations were recorded.
        warnings: Warnings about the recording.
        unread: Tables of the files that were not read, with their rows.
    """

    title: str
    paths: tuple[str, ...]
    source: str
    step_ns: F64
    parts: Mapping[PartName, Fraction]
    items: Items
    phases: Phases = field(default_factory=dict)
    findings: tuple[Problem, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    ranks: int = 1
    recorder: str = ""
    memory_peak_bytes: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unread: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_steps(self) -> bool:
        """Whether steps were detected and analyzed."""
        return self.source != "none" and len(self.step_ns) > 0

    @property
    def mean_ns(self) -> Fraction:
        """The exact mean step."""
        return sum(self.parts.values(), Fraction(0))

    @property
    def idle_share(self) -> float:
        """Share of the mean step in which the GPU is idle; 0 without any."""
        idle_ns = sum((ns for name, ns in self.parts.items() if name.kind == "idle"), Fraction(0))
        return float(idle_ns / self.mean_ns) if self.mean_ns else 0.0
