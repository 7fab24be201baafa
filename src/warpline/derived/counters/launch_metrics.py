"""Metrics of a launch that follow from its shape and its GPU, without counters.

Nsight Compute stores them in its reports. For launches that Warpline recorded they are computed
here, by CUDA's rules of occupancy, with Nsight Compute's names and units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpline.derived import derived
from warpline.derived.counters.block_limits import block_limits, limits_of_launches
from warpline.frozen import frozen
from warpline.hardware.sm_limits import PARTITIONS
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.trace import Trace

_LARGEST = 2.0**62


@frozen
class LaunchMetric:
    """A metric of all profiled launches.

    Attributes:
        name: Name, as in ncu.
        unit: Base unit; empty without one.
        values: Shape (launches,), int64 for integers, float64, or objects if they are texts.
        is_known: Which launches have it, shape (launches,).
    """

    name: str
    unit: str
    values: NDArray[Any]
    is_known: BoolArray


@derived
def launch_metrics(trace: Trace) -> tuple[LaunchMetric, ...]:
    """Return the metrics that follow from the shapes of launches.

    Launches of reports have none, since their metrics are those of the report. Neither have ranges
    that were counted as a whole. The limits of occupancy are known for known compute capabilities.

    The limit by shared memory is given where it limits occupancy. Elsewhere it depends on the
    carve-out that the driver chose, which is not recorded.
    """
    facts = trace.columns("profiled_kernel", "is_range", "passes")
    is_range, passes = facts["is_range"], facts["passes"]
    has_passes = is_range.is_valid() & passes.is_valid()
    is_own = is_range.is_valid() & ~is_range.values
    sizes = trace.columns("profiled_kernel", *(f"{of}_{a}" for of in _SHAPES for a in "xyz"))
    grid, block = (_product([sizes[f"{of}_{axis}"].values for axis in "xyz"]) for of in _SHAPES)
    is_own &= (grid > 0) & (block > 0) & (grid * block < _LARGEST)
    found = [
        LaunchMetric(
            "profiler__replayer_passes", "pass", passes.values.astype(np.float64), has_passes
        ),
        LaunchMetric("launch__block_size", "", _whole(block, is_own), is_own),
        LaunchMetric("launch__grid_size", "", _whole(grid, is_own), is_own),
        LaunchMetric("launch__thread_count", "thread", _whole(grid * block, is_own), is_own),
    ]
    columns = trace.columns("profiled_kernel", *_OF_COLUMNS)
    for of in _SHAPES:
        unit = "block" if of == "block" else ""
        found += [
            LaunchMetric(f"launch__{of}_dim_{axis}", unit, sizes[f"{of}_{axis}"].values, is_own)
            for axis in "xyz"
        ]
    found += [_native_ids(trace, of, is_own) for of in ("context", "stream")]
    for column, (name, unit) in _OF_COLUMNS.items():
        data = columns[column]
        found.append(LaunchMetric(name, unit, data.values, is_own & data.is_valid()))
    sms = _sms(trace)
    found.append(LaunchMetric("launch__sm_count", "SM", sms, is_own & (sms > 0)))
    return (*found, *_occupancy(trace, grid, block, is_own, sms))


_SHAPES = ("grid", "block")
_KINDS = ("static", "dynamic")  # of shared memory
_OF_COLUMNS = {
    "registers_per_thread": ("launch__registers_per_thread", "register/thread"),
    "static_shared_bytes": ("launch__shared_mem_per_block_static", "byte/block"),
    "dynamic_shared_bytes": ("launch__shared_mem_per_block_dynamic", "byte/block"),
}


def _native_ids(trace: Trace, of: str, is_own: BoolArray) -> LaunchMetric:
    """Return CUDA's ids of the contexts or the streams of launches."""
    rows = trace.columns("profiled_kernel", f"{of}_id")[f"{of}_id"]
    count = trace.row_count(of) if trace.has(of) else 0
    ids = np.zeros(count + 1, np.int64)
    if count:
        ids[:count] = trace.columns(of, "native_id")["native_id"].values
    return LaunchMetric(f"launch__{of}_id", "", ids[rows.filled(count)], is_own & rows.is_valid())


def _product(sizes: list[I64]) -> F64:
    x, y, z = (size.astype(np.float64) for size in sizes)
    return x * y * z


def _whole(values: F64, is_known: BoolArray) -> I64:
    return np.where(is_known, values, 0).astype(np.int64)


def _sms(trace: Trace) -> I64:
    """Return the SMs of the GPU of each launch, 0 if unknown."""
    launches = trace.columns("profiled_kernel", "device_id")["device_id"]
    count = trace.row_count("device") if trace.has("device") else 0
    sms = np.zeros(count + 1, np.int64)
    if count:
        sms[:count] = trace.columns("device", "sm_count")["sm_count"].filled(0)
    return sms[launches.filled(count)]  # the last row has a zero


def _occupancy(
    trace: Trace, grid: F64, block: F64, is_own: BoolArray, sms: I64
) -> list[LaunchMetric]:
    """Return the limits of occupancy: blocks per SM, and what follows from the least of them."""
    columns = trace.columns("profiled_kernel", *_OF_COLUMNS)
    registers = columns["registers_per_thread"].filled(0).astype(np.float64)
    static, dynamic = (columns[f"{kind}_shared_bytes"].filled(0) for kind in _KINDS)
    shared = static.astype(np.float64) + dynamic
    limits = limits_of_launches(trace)
    most_warps, reserved = limits[0], limits[4]
    by = block_limits(limits, block, registers, shared)
    blocks, of_thread, of_block = by.resident, by.allocated_registers, by.allocated_shared_bytes
    is_known = is_own & (most_warps > 0) & (registers > 0) & (blocks > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        warps = blocks * by.block_warps
        metrics = (
            ("launch__occupancy_limit_blocks", "block", by.blocks, is_known),
            ("launch__occupancy_limit_registers", "block", by.registers, is_known),
            ("launch__occupancy_limit_shared_mem", "block", by.shared, by.shared == blocks),
            ("launch__occupancy_limit_warps", "block", by.warps, is_known),
            ("launch__registers_per_thread_allocated", "register/thread", of_thread, is_known),
            ("launch__shared_mem_per_block_allocated", "byte/block", of_block, is_known),
            ("launch__waves_per_multiprocessor", "", grid / sms / blocks, sms > 0),
            ("sm__maximum_warps_avg_per_active_cycle", "warp", warps, is_known),
            ("sm__maximum_warps_per_active_cycle_pct", "%", 100 * warps / most_warps, is_known),
            ("smsp__maximum_warps_avg_per_active_cycle", "warp", warps / PARTITIONS, is_known),
        )
    # What a launch has beside what it asked for. How Nsight Compute rounds their sum is not known.
    used = shared + reserved
    whole = (
        ("launch__shared_mem_per_block_driver", "byte/block", reserved, is_known),
        ("launch__shared_mem_per_block", "byte/block", used, is_known & (used == of_block)),
    )
    return [
        *(
            LaunchMetric(name, unit, np.where(is_known & has, values, 0), is_known & has)
            for name, unit, values, has in metrics
        ),
        *(LaunchMetric(name, unit, _whole(values, has), has) for name, unit, values, has in whole),
    ]
