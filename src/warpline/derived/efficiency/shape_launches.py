"""What the launches of each kernel and shape did: numbers of single launches, to take medians of.

Launches are those whose counters were collected or, without counters, all of a timeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived.counters import metric_numbers
from warpline.derived.counters.known import Known, first_known, ratio, scaled, total_of_known
from warpline.derived.efficiency.rooflines import rooflines
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64
from warpline.ops.group import factorize_rows
from warpline.trace import Trace

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"
_RATIOS = {
    "sm_ratio": f"sm__throughput.{_ELAPSED}",
    "issue_ratio": f"sm__issue_active.{_ELAPSED}",
    "tensor_ratio": f"sm__pipe_tensor_cycles_active.{_ELAPSED}",
    "dram_ratio": f"gpu__dram_throughput.{_ELAPSED}",
    "l2_ratio": f"lts__t_sectors.{_ELAPSED}",
    "occupancy_ratio": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
_CLOCK = "sm__cycles_elapsed.avg.per_second"
_SHAPE = tuple(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz")


@frozen
class ShapeLaunches:
    """The launches of a kernel and shape.

    Attributes:
        kernel: Its name.
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        count: Launches.
        numbers: By name, the values of those launches that have one: ``duration_ns``, ``flop``,
            ``dram_bytes``, ``clock_hz``, ratios.
        metrics: By the name of a metric, its values likewise.
        roofs: By the name of a precision or level of memory: FLOP or bytes of launches, and how
            many of them the ceiling allows per second.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    count: int
    numbers: Mapping[str, F64]
    metrics: Mapping[str, F64]
    roofs: Mapping[str, tuple[F64, F64]]


def shape_launches(trace: Trace, metrics: Sequence[str] = ()) -> list[ShapeLaunches]:
    """Return the launches of each kernel and shape, in the order of their first launches.

    Args:
        trace: The trace.
        metrics: Further metrics to return, by name.

    FLOP are known only if all that use Tensor Cores count: those of integers, and those that a chip
    has no counter for, are no FLOP, so a launch that has no others is left without.
    """
    if trace.has("profiled_kernel"):
        return _counted(trace, metrics)
    return _of_timeline(trace) if trace.has("kernel") else []


def _counted(trace: Trace, metrics: Sequence[str]) -> list[ShapeLaunches]:
    found = rooflines(trace)
    numbers = {
        name: scaled(Known(*metric_numbers(trace, metric)), 0.01)
        for name, metric in _RATIOS.items()
    }
    counted = {roof.name: roof.amount for roof in found.roofs if roof.is_flop}
    flop = total_of_known(*counted.values())
    tensor = total_of_known(*(of for name, of in counted.items() if name.endswith("Tensor Core")))
    active = numbers["tensor_ratio"]
    is_missed = active.is_known & (active.values > 0) & ~(tensor.is_known & (tensor.values > 0))
    dram = next(roof for roof in found.roofs if roof.name == "DRAM")
    seconds = scaled(found.duration_ns, 1e-9)
    numbers |= {
        "duration_ns": found.duration_ns,
        "flop": Known(flop.values, flop.is_known & ~is_missed),
        "dram_bytes": dram.amount,
        "clock_hz": Known(*metric_numbers(trace, _CLOCK)),
    }
    numbers["sm_ratio"] = first_known(numbers["sm_ratio"], found.sm_ratio)
    roofs = {
        roof.name: (roof.amount, ratio(roof.ceiling, seconds))
        for roof in found.roofs
        if roof.is_flop or roof.is_memory
    }
    named = {name: Known(*metric_numbers(trace, name)) for name in metrics}
    return _grouped(trace, "profiled_kernel", numbers, named, roofs)


def _of_timeline(trace: Trace) -> list[ShapeLaunches]:
    times = trace.columns("kernel", "start_ns", "end_ns")
    duration = (times["end_ns"].values - times["start_ns"].values).astype(np.float64)
    is_known = times["start_ns"].is_valid() & times["end_ns"].is_valid()
    return _grouped(trace, "kernel", {"duration_ns": Known(duration, is_known)}, {}, {})


def _grouped(
    trace: Trace,
    table: str,
    numbers: Mapping[str, Known],
    metrics: Mapping[str, Known],
    roofs: Mapping[str, tuple[Known, Known]],
) -> list[ShapeLaunches]:
    columns = trace.columns(table, "name_id", *_SHAPE)
    sizes = [columns[name].filled(0) for name in _SHAPE]
    names = columns["name_id"].filled(-1)
    groups = factorize_rows(names, *sizes)
    order = np.argsort(groups.codes, kind="stable")
    rows_of = np.split(order, np.flatnonzero(np.diff(groups.codes[order])) + 1)
    found = []
    for rows in sorted((rows for rows in rows_of if len(rows)), key=lambda rows: rows[0]):
        first = rows[0]
        size = [int(axis[first]) for axis in sizes]
        name = trace.strings.text(int(names[first])) if names[first] >= 0 else ""
        found.append(
            ShapeLaunches(
                name,
                tuple(size[:3]),
                tuple(size[3:]),
                len(rows),
                {key: _known(of, rows) for key, of in numbers.items()},
                {key: _known(of, rows) for key, of in metrics.items()},
                {key: (_known(of, rows), _known(by, rows)) for key, (of, by) in roofs.items()},
            )
        )
    return found


def _known(of: Known, rows: I64) -> F64:
    known: F64 = of.values[rows][of.is_known[rows]]
    return known


def joined(runs: Sequence[Sequence[ShapeLaunches]]) -> list[ShapeLaunches]:
    """Return the launches of several runs of a program, by kernel and shape."""
    parts: dict[tuple[object, ...], list[ShapeLaunches]] = {}
    for run in runs:
        for one in run:
            parts.setdefault((one.kernel, one.grid, one.block), []).append(one)
    return [
        ShapeLaunches(
            of[0].kernel,
            of[0].grid,
            of[0].block,
            sum(one.count for one in of),
            _joined([one.numbers for one in of]),
            _joined([one.metrics for one in of]),
            {
                key: (
                    np.concatenate([one.roofs[key][0] for one in of]),
                    np.concatenate([one.roofs[key][1] for one in of]),
                )
                for key in of[0].roofs
            },
        )
        for of in parts.values()
    ]


def _joined(parts: Sequence[Mapping[str, F64]]) -> dict[str, F64]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([part[name] for part in parts if name in part]) for name in names}
