"""pcie-link: the PCIe link of a GPU is slower than both of its ends can do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.health.measured import measured_readings
from warpline.derived.health.readings import Readings
from warpline.derived.health.shown import gpus_in_words, show_readings
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.derived.work.pcie import pcie_bytes_per_s
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.interval import union
from warpline.result import Finding, rule
from warpline.result.changes import ScaleOperations
from warpline.trace import Run
from warpline.units import format_ns, format_rate, plural

NAME = "pcie-link"
TITLE = "The PCIe link is below its generation or width"

_LEAST_READINGS = 2
# A link returns to a low generation some time after its last copy.
_AFTER_COPY_NS = 10_000_000
_LIMITED = 0.6  # of the link's rate that a copy must reach: slower ones wait for something else


class _Link(NamedTuple):
    """A PCIe link: now, and at its best."""

    generation: int
    width: int
    best_generation: int
    best_width: int

    @property
    def bytes_per_s(self) -> float:
        """Its rate now."""
        return pcie_bytes_per_s(self.generation, self.width)

    @property
    def best_bytes_per_s(self) -> float:
        """Its rate at its best."""
        return pcie_bytes_per_s(self.best_generation, self.best_width)

    @property
    def ratio(self) -> float:
        """Its rate now as a share of the best; 1 if unknown."""
        is_known = self.bytes_per_s and self.best_bytes_per_s
        return min(self.bytes_per_s / self.best_bytes_per_s, 1.0) if is_known else 1.0


@rule(name=NAME, title=TITLE)
def pcie_link(run: Run) -> list[Finding]:
    """PCIe links at a lower generation or with fewer lanes than GPU and machine can do.

    What it finds: While copies between host and GPU run, the link has a lower generation or fewer
        lanes than the highest of the GPU in its slot.
    Why it matters: Half of the lanes, or one generation less, is half of the bandwidth.
    How it is found: By the driver's readings during copies, and up to 10 ms after: an idle link
        lowers its generation to save power. At least two such readings, all of them below the
        highest. Copies that reach at least 60% of the link's rate would be faster by the ratio of
        the rates; others wait for something else.
    What to do: Seat the GPU again, try another slot or riser, and check the BIOS settings of the
        slot.
    Limits: Needs readings of the GPU's state that fall into copies: short copies and rare readings
        hardly meet. Only the link at the GPU is seen, not switches above it.
    Source: PCI Express Base Specification (rates per lane); NVML API reference.
    """
    findings = []
    for readings in measured_readings(run):
        slow = _slow_link(run, readings)
        if slow is not None:
            findings.append(_finding(run, readings, *slow))
    return findings


def _slow_link(run: Run, readings: Readings) -> tuple[_Link, I64] | None:
    """Return the fastest link during copies if it is below the best, and these readings."""
    best = run.trace.columns("device", "pcie_generation", "pcie_width")
    generation, width = (int(column.filled(0)[readings.of]) for column in best.values())
    known = readings.is_known("pcie_generation") & readings.is_known("pcie_width")
    rows = np.flatnonzero(known & _during_copies(run, readings))
    if not generation or not width or len(rows) < _LEAST_READINGS:
        return None
    now = [readings.columns[name].values[rows] for name in ("pcie_generation", "pcie_width")]
    links = {
        _Link(each, lanes, generation, width)
        for each, lanes in zip(now[0].tolist(), now[1].tolist(), strict=True)
    }
    fastest = max(links, key=lambda link: link.ratio)
    return (fastest, rows) if fastest.ratio < 1 else None


def _copies(run: Run, device: int) -> BoolArray:
    """Return which operations are copies between the host and a GPU."""
    over_pcie = np.isin(operation_categories(run.trace), [TimePart.COPY_H2D, TimePart.COPY_D2H])
    chosen: BoolArray = over_pcie & (operations(run.trace).device == device)
    return chosen


def _during_copies(run: Run, readings: Readings) -> BoolArray:
    work, copies = operations(run.trace), np.flatnonzero(_copies(run, readings.of))
    spans = union(work.start_ns[copies], work.end_ns[copies] + _AFTER_COPY_NS)
    return readings.inside(*spans)


def _finding(run: Run, readings: Readings, link: _Link, rows: I64) -> Finding:
    trace, scope, work = run.trace, step_scope(run), operations(run.trace)
    gpu = gpus_in_words(trace, (readings.of,))
    copies = np.flatnonzero(_copies(run, readings.of) & scope.operations)
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
    rate = size * 1e9 / np.maximum(work.end_ns[copies] - work.start_ns[copies], 1)
    chosen = np.zeros(len(work), np.bool_)
    chosen[copies[rate >= _LIMITED * link.bytes_per_s]] = True
    weight = scope.weigh(chosen)
    now, best = f"{link.generation} x{link.width}", f"{link.best_generation} x{link.best_width}"
    shown = show_readings(readings, rows, " during copies")
    many = plural(max(round(weight.number), 1), "copy", "copies")
    at_best = Estimate(link.ratio, link.ratio, (1 + link.ratio) / 2)
    lost, each = weight.share * (1 - link.ratio), format_ns(weight.ns * (1 - link.ratio))
    takes = f" {many}{scope.each} take {weight.time}, {each} longer." if weight.ns else ""
    return Finding(
        NAME,
        severity_of(lost),
        f"The PCIe link of {gpu} is {now} instead of {best}",
        f"During copies, the link of {gpu} is PCIe {now}, and {best} at its best:"
        f" {format_rate(link.bytes_per_s)} instead of {format_rate(link.best_bytes_per_s)}.{takes}",
        (shown, scope.show_operations(f"{many}{scope.each}", chosen)) if weight.ns else (shown,),
        "Seat the GPU again, try another slot or riser cable, and check the BIOS settings of the"
        " slot (generation, bifurcation): nvidia-smi -q shows link and slot.",
        "Profile again: `warpline stats -r gpu_health_sum` shows the best PCIe link.",
        changes=(ScaleOperations(np.flatnonzero(chosen), at_best),) if weight.ns else (),
        on_devices=weight.on_devices,
        is_of_machine=True,
    )
