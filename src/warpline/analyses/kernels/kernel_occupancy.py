"""kernel_occupancy: theoretical and achieved occupancy of each kernel, and what limits it."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters import launch_columns
from warpline.derived.counters.occupancies import (
    BLOCK,
    REGISTERS,
    SHARED,
    Configurations,
    changes,
    configurations,
)
from warpline.ops.arrays import F64
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_occupancy"
TITLE = "Occupancy of profiled kernels"
WHAT_IF = "what_if"
HINT = (
    "occupancy follows from block size, registers and shared memory of a launch, on GPUs of known "
    "compute capability: profile with warpline kernels, or pass a .ncu-rep"
)
_KERNEL = Field("kernel", Unit.NONE, "Kernel name.", "Kernel")
_THREADS = Field("threads", Unit.COUNT, "Threads of a block.", "Block Size")
_REGISTERS = Field("registers", Unit.COUNT, "Registers per thread.", "Registers")
_SHARED = Field(
    "shared_bytes", Unit.BYTES, "Shared memory of a block, static and dynamic.", "Shared (B)"
)
FIELDS = (
    _KERNEL,
    Field("launches", Unit.COUNT, "Profiled launches with this block size.", "Launches"),
    _THREADS,
    _REGISTERS,
    _SHARED,
    Field("theoretical_ratio", Unit.RATIO, "Theoretical occupancy.", "Theoretical (%)", 100.0, 1),
    Field("achieved_ratio", Unit.RATIO, "Achieved occupancy, mean.", "Achieved (%)", 100.0, 1),
    Field("limited_by", Unit.NONE, "What keeps it below 100%.", "Limited by"),
    Field("warps", Unit.COUNT, "Warps that an SM holds.", "Warps per SM"),
    Field("blocks", Unit.COUNT, "Blocks that an SM holds.", "Blocks per SM"),
    Field("limit_warps", Unit.COUNT, "Blocks by warps.", "By Warps"),
    Field("limit_registers", Unit.COUNT, "Blocks by registers.", "By Registers"),
    Field("limit_shared", Unit.COUNT, "Blocks by shared memory.", "By Shared Memory"),
    Field("limit_blocks", Unit.COUNT, "Blocks by the most that an SM holds.", "By Blocks"),
    Field("limit_barriers", Unit.COUNT, "By barriers.", "By Barriers", is_optional=True),
)
_WHAT_IF = (
    _KERNEL,
    _THREADS,
    _REGISTERS,
    _SHARED,
    Field("changed", Unit.NONE, "What is changed: no other resource is.", "Changed"),
    Field("now", Unit.NONE, "Threads, registers per thread or bytes now.", "From"),
    Field("then", Unit.NONE, "The same, changed.", "To"),
    Field("theoretical_ratio", Unit.RATIO, "Occupancy now.", "Theoretical (%)", 100.0, 1),
    Field("changed_ratio", Unit.RATIO, "Theoretical occupancy then.", "Then (%)", 100.0, 1),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    arguments={
        WHAT_IF: "One row per block size, registers or shared memory with another occupancy."
    },
    missing_hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
)
def kernel_occupancy(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Theoretical and achieved occupancy of each kernel, and what limits it.

    What it measures: For each kernel, block size, registers and shared memory: the share of an SM's
        warps that are resident (theoretical), the share that was active on average (achieved), and
        the resource that limits the first. With :what_if, the occupancy with other block sizes,
        registers per thread, and shared memory per block.
    Why it matters: Warps hide each other's latency. A kernel that waits for latency may gain from
        more of them. One that is near a ceiling in kernel_roofline does not.
    How it is computed: By CUDA's rules: blocks per SM are the least of those that warps, registers
        (allocated per warp in 256), shared memory (of the carve-out of the launch, with 1 KiB per
        block for the driver from compute capability 8.0) and the SM's limit of blocks allow. As in
        ncu: launch__occupancy_limit_* and sm__maximum_warps_per_active_cycle_pct. Achieved is
        sm__warps_active. Several limits can be equal. With :what_if, registers and shared memory
        are the most with which an SM reaches that occupancy. The carve-out is the largest; where
        that of the launch limits occupancy, the largest is a row of its own, and other rows are
        those that differ from it.
    Limits: Clusters can lower occupancy further. Barriers count in reports of ncu, which have them.
        In recordings of Warpline, the carve-out is taken to be the largest. More occupancy helps
        only kernels that wait; fewer registers can lead to spills, and another block size to other
        registers. ncu's curves keep the carve-out, so they show less for more shared memory.
    Source: Warpline.
    """
    found = configurations(trace)
    if not len(found.launch):
        return Skipped(NAME, "no launch with registers on a GPU of known compute capability", HINT)
    if WHAT_IF in arguments:
        return _what_if(trace, found)
    limits = {
        "limit_warps": found.by.warps,
        "limit_registers": found.by.registers,
        "limit_shared": found.by.shared,
        "limit_blocks": found.by.blocks,
        "limit_barriers": found.by_barriers,
    }
    values: dict[str, Values] = {
        "kernel": launch_columns(trace, found.launch)["kernel"],
        "launches": Numbers(found.launches),
        "threads": _whole(found.threads),
        "registers": _whole(found.registers),
        "shared_bytes": _whole(found.shared_bytes),
        "theoretical_ratio": Numbers(found.occupancy),
        "achieved_ratio": Numbers(found.achieved, found.is_achieved_known),
        "limited_by": column_of([_limited_by(found, row) for row in range(len(found.launch))]),
        "warps": _whole(found.warps),
        "blocks": _whole(found.blocks),
        **{name: _whole(of) for name, of in limits.items()},
    }
    return Result(NAME, TITLE, FIELDS, values, ("kernel", "threads"))


def _limited_by(found: Configurations, row: int) -> str | None:
    """Return the resources that keep the occupancy of a row below 100%; None if none does."""
    blocks = found.blocks[row]
    if found.warps[row] >= found.limits[0, row]:
        return None
    resources = (
        (BLOCK, found.by.warps),
        (REGISTERS, found.by.registers),
        (SHARED, found.by.shared),
        ("blocks per SM", found.by.blocks),
        ("barriers", found.by_barriers),
    )
    return ", ".join(name for name, of in resources if of[row] == blocks)


def _what_if(trace: Trace, found: Configurations) -> Result:
    rows = list(changes(found))
    of = np.array([row.configuration for row in rows], np.int64)
    values: dict[str, Values] = {
        "kernel": launch_columns(trace, found.launch[of])["kernel"],
        "threads": _whole(found.threads[of]),
        "registers": _whole(found.registers[of]),
        "shared_bytes": _whole(found.shared_bytes[of]),
        "changed": column_of([row.resource for row in rows]),
        "now": Numbers(np.array([row.now for row in rows], np.int64)),
        "then": Numbers(np.array([row.then for row in rows], np.int64)),
        "theoretical_ratio": Numbers(found.occupancy[of]),
        "changed_ratio": Numbers(np.array([row.occupancy for row in rows], np.float64)),
    }
    key = ("kernel", "threads", "changed")
    return Result(f"{NAME}:{WHAT_IF}", TITLE, _WHAT_IF, values, key)


def _whole(of: F64) -> Numbers:
    is_known = np.isfinite(of)
    return Numbers(np.where(is_known, of, 0).astype(np.int64), is_known)
