"""What the rules find in profiled kernels, and what a repair would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpline import plugins
from warpline.counters.units import unit_of
from warpline.derived.code.fault_lines import FaultLines
from warpline.derived.code.lines import NO_TEXT
from warpline.derived.kernel_limits.ceilings import ceilings_of
from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.pricing import Priced, priced
from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.derived.kernel_limits.rules import KERNEL_RULES, Kind, Proposal
from warpline.documents.kernel_filters import NAMES, Choice, chosen_rows, shown
from warpline.documents.table_rows import Rows
from warpline.result.kernel_findings import (
    FindingLine,
    KernelFinding,
    KernelFindings,
    MetricValue,
    Outcome,
)
from warpline.trace import Trace

if TYPE_CHECKING:
    from warpline.documents.kernel_steps import TimelineSteps
    from warpline.hardware.measured import MeasuredCeilings
    from warpline.result.diagnosis import Severity

_OUTCOMES: dict[Kind, Outcome] = {
    Kind.REMOVES: "expected",
    Kind.REPLACES: "floor",
    Kind.NO_GAIN: "no-gain",
    Kind.REARRANGES: "floor",
    Kind.DONE: "no-gain",
}
# Least parts of the present time that a finding saves. High means that it does so even at worst;
# where the worst is unknown, that it would if the repair came halfway to its floor.
_HIGH, _MEDIUM = 0.2, 0.1
_HIGH_OF_FLOOR, _MEDIUM_OF_FLOOR = 0.5, 0.2
_LINES = 3  # of a finding


def kernel_findings(
    trace: Trace,
    choice: Choice,
    *,
    timeline: TimelineSteps | None = None,
    measured: Sequence[MeasuredCeilings] = (),
) -> list[tuple[KernelFinding, ...]]:
    """Return the findings of each chosen launch, ranked, in the order of `kernel_pages.launches`.

    A launch has none if it lacks the metrics that a prediction needs. Step savings are of all
    launches of a kernel and shape, by the findings of the launch with the median duration.

    Args:
        trace: The trace.
        choice: Which launches.
        timeline: Steps of the program, to say what each finding gives them.
        measured: What `warpline bench` measured on GPUs, in place of chosen ceilings.
    """
    rows = chosen_rows(trace, Rows(trace, "profiled_kernel"), choice)
    found = of_rows(Launches(trace, ceilings_of(trace, measured)), rows)
    return found if timeline is None else timeline.priced_launches(rows, found)


def of_rows(launches: Launches, rows: Sequence[int]) -> list[tuple[KernelFinding, ...]]:
    """Return the findings of launches by their rows in `profiled_kernel`, ranked."""
    if not launches.demands.has_all.any():
        return [()] * len(rows)
    plugins.load("kernel-rules")
    found, lines = priced(launches, KERNEL_RULES), FaultLines(launches.trace)
    return [tuple(_finding(launches, lines, item, row) for item in found[row]) for row in rows]


def of_kernels(
    trace: Trace,
    choice: Choice,
    *,
    timeline: TimelineSteps | None = None,
    measured: Sequence[MeasuredCeilings] = (),
    shown_name: str = "demangled",
) -> list[KernelFindings]:
    """Return the findings of each kernel and shape, by the launch with the median duration.

    Launches without the metrics that a prediction needs are left out. The kernel that takes most
    time is first: in the steps of the timeline, if there is one.

    Args:
        trace: The trace.
        choice: Which launches.
        timeline: Steps of the program, to say what each finding gives them.
        measured: What `warpline bench` measured on GPUs, in place of chosen ceilings.
        shown_name: The name to show: ``function``, ``demangled`` or ``mangled``.
    """
    launches = Launches(trace, ceilings_of(trace, measured))
    demands = launches.demands
    if not demands.has_all.any():
        return []
    table = Rows(trace, "profiled_kernel")
    sizes = [_sizes(table, of) for of in ("grid", "block")]
    groups: dict[tuple[str, str], list[int]] = {}
    for row in chosen_rows(trace, table, choice):
        if demands.has_all[row]:
            name = shown(table[NAMES[shown_name]][row] or table["name"][row] or "")
            groups.setdefault((name, " x ".join(of[row] for of in sizes)), []).append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: demands.time_ns[row])
    middles = [rows[(len(rows) - 1) // 2] for rows in groups.values()]
    used = demands.on_busiest_sm[middles]
    kernels = [
        KernelFindings(
            name,
            shape,
            len(rows),
            round(demands.time_ns[row]),
            RESOURCES[int(shares.argmax())].label,
            float(shares.max()),
            bool(launches.has_conversions[row]),
            findings if timeline is None else timeline.priced(row, findings),
            None if timeline is None else timeline.of_launch(row),
        )
        for ((name, shape), rows), row, shares, findings in zip(
            groups.items(), middles, used, of_rows(launches, middles), strict=True
        )
    ]
    kernels.sort(key=_time_of, reverse=True)
    return kernels


def _time_of(kernel: KernelFindings) -> tuple[int, int]:
    """Return what kernels are sorted by: time in the steps, then in profiled launches."""
    in_steps = kernel.in_steps
    return (0 if in_steps is None else in_steps.time_ns), kernel.time_ns * kernel.launches


def _sizes(table: Rows, of: str) -> list[str]:
    """Return grids or blocks as ncu shows them: ``(2048, 1, 1)``."""
    axes = zip(*(table[f"{of}_{axis}"] for axis in "xyz"), strict=True)
    return [f"({x}, {y}, {z})" for x, y, z in axes]


def _finding(launches: Launches, lines: FaultLines, item: Priced, row: int) -> KernelFinding:
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
        tuple(_lines(launches.trace, lines, proposal, row)),
    )


def _lines(trace: Trace, lines: FaultLines, proposal: Proposal, row: int) -> Iterator[FindingLine]:
    """Yield the source lines at which a fault shows most."""
    place = proposal.shown_at
    if place is None:
        return
    for found in lines.ranked(row, place.metrics, _LINES):
        text = None if found.text == NO_TEXT else trace.strings.text(found.text).strip()
        value = _number(np.float64(found.value))
        file = trace.strings.text(found.file)
        yield FindingLine(file, found.line, text, place.noun, value, found.ratio)


def _severity(item: Priced, time_ns: float) -> Severity:
    kind = item.proposal.kind
    if not kind.is_fault and not kind.has_floor_only:
        return "info"
    likely = item.rank_ns / time_ns
    if item.likely_ns is None:
        least, (high, medium) = likely, (_HIGH_OF_FLOOR, _MEDIUM_OF_FLOOR)
    else:
        least, (high, medium) = (item.before_ns - item.high_ns) / time_ns, (_HIGH, _MEDIUM)
    if least >= high and kind.is_fault:
        return "high"
    return "medium" if likely >= medium else "low"


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
