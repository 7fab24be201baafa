"""What the pages of `warpline kernels` show: profiled launches, their metrics and sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MetricNumber = float | int | str | None
"""The value of a metric; an int is exact. None if it has only instances, or was not collected."""


class KernelMetric(NamedTuple):
    """One metric of a launch; a tuple, because pages may have millions.

    Attributes:
        name: Name.
        unit: Base unit; empty without one.
        value: Value in the base unit.
        instances: Number of its instances.
        values: Keys and values of the instances, if they were asked for.
    """

    name: str
    unit: str
    value: MetricNumber
    instances: int
    values: tuple[tuple[int | str | None, MetricNumber], ...] = ()


@dataclass(frozen=True, slots=True)
class RuleMessage:
    """One message of a rule.

    Attributes:
        rule: Identifier of the rule.
        kind: ``info``, ``warning``, ``error`` or ``optimization``.
        text: Message.
        speedup_kind: ``local`` or ``global``; None without an estimate.
        speedup_percent: Estimated speedup; None without an estimate.
    """

    rule: str
    kind: str
    text: str
    speedup_kind: str | None
    speedup_percent: float | None


@dataclass(frozen=True, slots=True)
class PageSection:
    """One section of a launch.

    Attributes:
        identifier: Identifier.
        title: Title.
        metrics: Labels and metrics, in the order of lines.
        rules: What rules say about it.
    """

    identifier: str
    title: str
    metrics: tuple[tuple[str, KernelMetric], ...]
    rules: tuple[RuleMessage, ...]


# Beyond it, metrics of different passes may not fit together.
NOTABLE_CLOCK_DRIFT = 0.02


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """One profiled launch.

    Attributes:
        number: ID in its report.
        pid: Process id.
        process: Name of the executable, without its directory.
        host: Host name.
        name: Name of the kernel.
        invocation: Which launch of this name it is in its process, from 1, of those that were
            profiled.
        context: CUDA context id.
        stream: CUDA stream id.
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        device: Index of the GPU.
        capability: Compute capability, such as ``9.0``.
        is_unlocked: Whether the GPU's clocks are known not to have been locked.
        is_range: Whether several kernels were counted as a whole; None if unknown. They may have
            run concurrently, and have no grid and block.
        kernels: Number of kernels that were counted; None if unknown.
        passes: Number of passes that collected the metrics; None if unknown.
        clock_drift_ratio: How much the clock of the SMs differed between the passes, of its
            maximum; None if unknown.
        nvtx: NVTX ranges that were open, outermost first; None without any.
        metrics: Metrics by name.
        sections: Sections, in the order in which they are shown.
    """

    number: int
    pid: int
    process: str
    host: str
    name: str
    invocation: int
    context: int | None
    stream: int | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    device: int | None
    capability: str
    is_unlocked: bool
    is_range: bool | None
    kernels: int | None
    passes: MetricNumber
    clock_drift_ratio: float | None
    nvtx: str | None
    metrics: Mapping[str, KernelMetric]
    sections: tuple[PageSection, ...]

    @property
    def has_clock_drift(self) -> bool:
        """Whether the clock is known to have differed much between the passes."""
        return (self.clock_drift_ratio or 0) > NOTABLE_CLOCK_DRIFT


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, maximum and mean of a metric over launches, in its base unit."""

    section: str
    label: str
    unit: str
    minimum: int | float
    maximum: int | float
    mean: float


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Launches that are summarized together.

    Attributes:
        launches: The launches; at least one.
        is_kernel: Whether they are of one kernel and shape, not all on one GPU.
        spreads: Their metrics.
    """

    launches: tuple[ProfiledLaunch, ...]
    is_kernel: bool
    spreads: tuple[Spread, ...]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page: title, headings and rows."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[MetricNumber, ...], ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """A machine instruction: address, bits in hexadecimal, source file and line if known."""

    address: int
    encoding: str | None
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The instructions of a launch, and values of metrics by name and address."""

    launch: ProfiledLaunch
    instructions: tuple[Instruction, ...]
    values: Mapping[str, Mapping[int | str | None, MetricNumber]]
