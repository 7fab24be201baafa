"""What the rules find in profiled kernels, and what a repair would save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from warpline import plugins
from warpline.counters.units import unit_of
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.pricing import Priced, priced
from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.derived.kernel_limits.rules import KERNEL_RULES, Kind
from warpline.documents.kernel_filters import Choice, chosen_rows
from warpline.documents.table_rows import Rows
from warpline.result.diagnosis import Severity
from warpline.result.kernel_findings import KernelFinding, KernelFindings, MetricValue, Outcome
from warpline.result.kernel_pages import ProfiledLaunch
from warpline.trace import Trace

_OUTCOMES: dict[Kind, Outcome] = {
    Kind.REMOVES: "expected",
    Kind.REPLACES: "floor",
    Kind.NO_GAIN: "no-gain",
    Kind.DONE: "no-gain",
}
# Least parts of the present time that a finding saves. High means that it does so even at worst;
# where the worst is unknown, that it would if the repair came halfway to its floor.
_HIGH, _MEDIUM = 0.2, 0.1
_HIGH_OF_FLOOR, _MEDIUM_OF_FLOOR = 0.5, 0.2


def kernel_findings(trace: Trace, choice: Choice) -> list[tuple[KernelFinding, ...]]:
    """Return the findings of each chosen launch, ranked, in the order of `kernel_pages.launches`.

    A launch has none if it lacks the metrics that a prediction needs.
    """
    return _of_rows(trace, chosen_rows(trace, Rows(trace, "profiled_kernel"), choice))


def _of_rows(trace: Trace, rows: Iterable[int]) -> list[tuple[KernelFinding, ...]]:
    plugins.load("kernel-rules")
    launches = Launches(trace)
    found = priced(launches, KERNEL_RULES)
    return [tuple(_finding(launches, item, row) for item in found[row]) for row in rows]


def of_kernels(
    trace: Trace, choice: Choice, shown: Sequence[ProfiledLaunch]
) -> list[KernelFindings]:
    """Return the findings of each kernel and shape, by the launch with the median duration.

    Launches without the metrics that a prediction needs are left out. The kernel that takes most
    time is first.

    Args:
        trace: The trace.
        choice: Which launches.
        shown: The same launches.
    """
    rows = chosen_rows(trace, Rows(trace, "profiled_kernel"), choice)
    demands = Launches(trace).demands
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, (row, launch) in enumerate(zip(rows, shown, strict=True)):
        if demands.has_all[row]:
            groups.setdefault((launch.name, launch.grid, launch.block), []).append(place)
    for places in groups.values():
        places.sort(key=lambda place: demands.time_ns[rows[place]])
    middles = {key: places[(len(places) - 1) // 2] for key, places in groups.items()}
    found = _of_rows(trace, (rows[place] for place in middles.values()))
    kernels = []
    for (key, place), findings in zip(middles.items(), found, strict=True):
        used = demands.on_busiest_sm[rows[place]]
        launch = shown[place]
        kernels.append(
            KernelFindings(
                launch.name,
                "" if launch.is_range else f"{_size(launch.grid)} x {_size(launch.block)}",
                len(groups[key]),
                round(demands.time_ns[rows[place]]),
                RESOURCES[int(used.argmax())].label,
                float(used.max()),
                findings,
            )
        )
    kernels.sort(key=lambda kernel: -kernel.time_ns * kernel.launches)
    return kernels


def _size(size: tuple[int, int, int]) -> str:
    return f"({', '.join(map(str, size))})"


def _finding(launches: Launches, item: Priced, row: int) -> KernelFinding:
    proposal = item.proposal
    low, high, before = round(item.low_ns), round(item.high_ns), round(item.before_ns)
    return KernelFinding(
        item.rule,
        proposal.title,
        _severity(item, launches.demands.time_ns[row]),
        _OUTCOMES[proposal.kind],
        proposal.claim(row),
        before,
        low,
        None if item.likely_ns is None else round(item.likely_ns),
        high,
        item.limiter,
        tuple(_evidence(launches, item, row)),
        proposal.fix,
    )


def _severity(item: Priced, time_ns: float) -> Severity:
    if not item.proposal.kind.is_fault:
        return "info"
    likely = item.rank_ns / time_ns
    if item.likely_ns is None:
        least, (high, medium) = likely, (_HIGH_OF_FLOOR, _MEDIUM_OF_FLOOR)
    else:
        least, (high, medium) = (item.before_ns - item.high_ns) / time_ns, (_HIGH, _MEDIUM)
    return "high" if least >= high else "medium" if likely >= medium else "low"


def _evidence(launches: Launches, item: Priced, row: int) -> list[MetricValue]:
    named = [
        MetricValue(name, _number(launches.metric(name)[row]), unit_of(name))
        for name in dict.fromkeys(item.proposal.evidence)
        if launches.has(name)[row]
    ]
    counted = [
        MetricValue(name, _number(values[row]), "inst")
        for name, values in item.proposal.counts.items()
        if name.startswith(EXECUTED) and launches.opcodes.has_any[row]
    ]
    return named + counted


def _number(value: np.float64) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() else number
