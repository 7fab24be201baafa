"""What the pages of `warpline kernels` show: profiled launches, their metrics and sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpline.ops.arrays import I64, Integers
from warpline.result.tables import Texts

MetricNumber = float | int | str | None
"""The value of a metric; an int is exact. None if it has only instances, or was not collected."""


Pairs = Sequence[tuple[int | str | None, MetricNumber]]
"""Keys and values of the instances of a metric."""


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric of the launches of a table.

    Attributes:
        name: Name.
        launches: Places of the launches that have it, ascending, shape (n,).
        units: Their base units; empty without one, shape (n,).
        values: Values in base units, shape (n,): float64, int64 for exact integers, or objects that
            are a `MetricNumber` each.
        instances: Numbers of instances, shape (n,).
        pairs: Place -> keys and values of instances that are shown with the value; a key may be
            None.
    """

    name: str
    launches: I64
    units: Texts
    values: NDArray[Any]
    instances: Integers
    pairs: Mapping[int, Pairs] = field(default_factory=dict)

    def part(self, places: slice) -> MetricColumn:
        """Return what launches at some places have."""
        first, last = np.searchsorted(self.launches, (places.start, places.stop))
        return self.take(slice(first, last))

    def among(self, launches: I64) -> MetricColumn:
        """Return what some launches have, of which some may lack the metric.

        Args:
            launches: Their places, ascending, shape (m,).
        """
        at = np.searchsorted(self.launches, launches)
        has = at < len(self.launches)
        has[has] = self.launches[at[has]] == launches[has]
        return self.take(at[has])

    def take(self, rows: slice | I64) -> MetricColumn:
        """Return some values."""
        return MetricColumn(
            self.name,
            self.launches[rows],
            Texts(self.units.codes[rows], self.units.values),
            self.values[rows],
            self.instances[rows],
            self.pairs,
        )

    @property
    def unit(self) -> str | None:
        """The unit that all values have; None if they differ."""
        codes = self.units.codes
        is_one = len(codes) > 0 and bool((codes == codes[0]).all())
        return self.units.values[codes[0]] if is_one else None


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
        lines: Labels and names of metrics that the launch has, in their order.
        rules: What rules say about it.
    """

    identifier: str
    title: str
    lines: tuple[tuple[str, str], ...]
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

    @property
    def has_clock_drift(self) -> bool:
        """Whether the clock is known to have differed much between the passes."""
        return (self.clock_drift_ratio or 0) > NOTABLE_CLOCK_DRIFT


Layout = tuple[PageSection, ...]
"""The sections of a launch, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """Launches with their metrics: columns, because there may be millions of values.

    Attributes:
        launches: The launches.
        columns: Their metrics, by name in alphabetical order.
        shown: Names of the metrics that pages of all metrics show.
        layouts: The different layouts.
        layout_codes: The layout of each launch, shape (launches,).
    """

    launches: tuple[ProfiledLaunch, ...]
    columns: Mapping[str, MetricColumn]
    shown: tuple[str, ...]
    layouts: tuple[Layout, ...]
    layout_codes: I64

    def __len__(self) -> int:
        return len(self.launches)

    def metrics(self, place: int) -> dict[str, MetricNumber]:
        """Return the values of all metrics of a launch, by name."""
        parts = (column.part(slice(place, place + 1)) for column in self.columns.values())
        return {part.name: part.values.tolist()[0] for part in parts if len(part.values)}


def by_names(
    columns: Mapping[str, MetricColumn], places: slice
) -> list[tuple[tuple[str, ...], I64]]:
    """Return names of metrics, and the launches at some places that have these of the columns."""
    names = [*columns]
    has = np.zeros((places.stop - places.start, len(names)), np.bool_)
    for number, column in enumerate(columns.values()):
        has[column.part(places).launches - places.start, number] = True
    groups: dict[bytes, list[int]] = {}
    for place, key in enumerate(map(bytes, np.packbits(has, axis=1))):
        groups.setdefault(key, []).append(place)
    return [
        (
            tuple(compress(names, has[of_group[0]].tolist())),
            np.array(of_group, np.int64) + places.start,
        )
        for of_group in groups.values()
    ]


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, maximum and mean of a metric over launches, in its base unit."""

    section: str
    label: str
    unit: str
    minimum: int | float
    maximum: int | float
    mean: float


GroupedBy = Literal["gpu", "kernel", "nvtx"]
"""What groups of launches have in common: nothing more, kernel and shape, or open NVTX ranges."""


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Launches that are summarized together.

    Attributes:
        launches: The launches; at least one.
        by: What they have in common beside process and GPU.
        spreads: Their metrics.
    """

    launches: tuple[ProfiledLaunch, ...]
    by: GroupedBy
    spreads: tuple[Spread, ...]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page: title, headings and rows."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[MetricNumber, ...], ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """A machine instruction: address, bits in hexadecimal, file, line and SASS if known."""

    address: int | None
    encoding: str | None
    file: str | None
    line: int | None
    sass: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The instructions of a launch, and values of metrics by name and address."""

    launch: ProfiledLaunch
    instructions: tuple[Instruction, ...]
    values: Mapping[str, Mapping[int | str | None, MetricNumber]]
