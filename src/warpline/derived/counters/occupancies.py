"""Occupancy of profiled kernels: what limits it, and what it would be with other resources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.counters import metric_numbers
from warpline.derived.counters.block_limits import BlockLimits, block_limits, limits_of_launches
from warpline.frozen import frozen
from warpline.hardware.sm_limits import MOST_REGISTERS, WARP_THREADS
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.trace import Trace

BLOCK, REGISTERS, SHARED, CARVEOUT = "block size", "registers", "shared memory", "carve-out"
_BLOCK_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_REGISTERS_PER_THREAD = (*range(16, MOST_REGISTERS, 8), MOST_REGISTERS)
_MOST_THREADS = 1024  # of a block
_NO_NAME = -1


@frozen
class Configurations:
    """Kernels, each with one block size and resources, from their profiled launches.

    Attributes:
        launch: Row of the first launch of each, shape (n,).
        launches: Launches, shape (n,).
        threads: Threads of a block, shape (n,), as all the following.
        registers: Registers per thread.
        shared_bytes: Shared memory of a block, static and dynamic.
        carveout_bytes: Shared memory of an SM as configured, or the most it can have.
        limits: `SmLimits` of the GPU, shape (6, n).
        by: Blocks per SM by each resource.
        by_barriers: Blocks per SM by barriers; infinite if not recorded.
        achieved: Achieved occupancy, mean over launches, in [0, 1].
        is_achieved_known: Whether it was counted.
        of_launch: The number of each profiled launch's among them, -1 without one, (launches,).
    """

    launch: I64
    launches: I64
    threads: F64
    registers: F64
    shared_bytes: F64
    carveout_bytes: F64
    limits: F64
    by: BlockLimits
    by_barriers: F64
    achieved: F64
    is_achieved_known: BoolArray
    of_launch: I64

    @property
    def blocks(self) -> F64:
        """The blocks that an SM holds, shape (n,)."""
        return np.minimum(self.by.resident, self.by_barriers)

    @property
    def warps(self) -> F64:
        """The warps that an SM holds, shape (n,)."""
        return self.blocks * self.by.block_warps

    @property
    def occupancy(self) -> F64:
        """Theoretical occupancy, in [0, 1], shape (n,)."""
        return self.by.occupancy(self.blocks, self.limits)


_RESOURCES = {
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
}


def _resource(trace: Trace, column: str, name: str) -> I64:
    """Return a resource of each launch, by its record or else its metric; 0 if unknown."""
    recorded = trace.columns("profiled_kernel", column)[column]
    values, is_known = metric_numbers(trace, name)
    return np.where(
        recorded.is_valid(), recorded.values, np.where(is_known, values, 0).astype(np.int64)
    ).astype(np.int64)


@derived
def configurations(trace: Trace) -> Configurations:
    """Return the kernels whose occupancy is known: launches on GPUs of known compute capability.

    Ranges that were counted as a whole have none. They are in the order of their first launches.
    """
    axes = [f"block_{axis}" for axis in "xyz"]
    columns = trace.columns("profiled_kernel", "name_id", "is_range", *axes)
    threads = np.prod([columns[axis].values.astype(np.float64) for axis in axes], axis=0)
    registers, *shared = (_resource(trace, column, name) for column, name in _RESOURCES.items())
    limits = limits_of_launches(trace)
    carveout, has_carveout = metric_numbers(trace, "launch__shared_mem_config_size")
    carveout = np.where(has_carveout, carveout, limits[3])
    barriers, has_barriers = metric_numbers(trace, "launch__occupancy_limit_barriers")
    barriers = np.where(has_barriers, barriers, np.inf)
    achieved, is_achieved = metric_numbers(
        trace, "sm__warps_active.avg.pct_of_peak_sustained_active"
    )
    is_kernel = ~columns["is_range"].filled(0).astype(np.bool_)
    is_kernel &= (limits[0] > 0) & (registers > 0) & (threads > 0)
    chosen = np.flatnonzero(is_kernel)
    devices = trace.columns("profiled_kernel", "device_id")["device_id"].filled(0)
    keys = (
        columns["name_id"].filled(_NO_NAME).astype(np.int64)[chosen],
        devices.astype(np.int64)[chosen],
        *(of[chosen].astype(np.int64) for of in (threads, registers, *shared, carveout)),
    )
    groups = factorize_rows(*keys)
    order = np.argsort(groups.first, kind="stable")
    launch = chosen[groups.first[order]]
    numbers = np.empty(groups.n_groups, np.int64)
    numbers[order] = np.arange(groups.n_groups)
    of_launch = np.full(len(is_kernel), -1, np.int64)
    of_launch[chosen] = numbers[groups.codes]
    counted = np.flatnonzero(is_achieved[chosen])
    codes = groups.codes[counted]
    n_counted = np.bincount(codes, minlength=groups.n_groups)[order]
    sums = np.bincount(codes, achieved[chosen][counted], groups.n_groups)[order]
    used = (shared[0] + shared[1]).astype(np.float64)[launch]
    own = (limits[:, launch], threads[launch], registers.astype(np.float64)[launch], used)
    return Configurations(
        launch,
        np.bincount(groups.codes, minlength=groups.n_groups)[order],
        *own[1:],
        carveout[launch],
        own[0],
        block_limits(*own, carveout[launch]),
        barriers[launch],
        sums / np.maximum(n_counted, 1) / 100,
        n_counted > 0,
        of_launch,
    )


class Change(NamedTuple):
    """A change of one resource of a configuration, with another theoretical occupancy.

    Attributes:
        configuration: Its number.
        resource: ``block size``, ``registers``, ``shared memory`` or ``carve-out``.
        now: Threads, registers per thread, or bytes.
        then: The same, changed.
        occupancy: Theoretical occupancy with it, in [0, 1].
    """

    configuration: int
    resource: str
    now: int
    then: int
    occupancy: float


def changes(of: Configurations) -> Iterator[Change]:
    """Yield the changes of a single resource that change the theoretical occupancy.

    Of registers and shared memory, the most with which an occupancy is reached; of block sizes,
    common ones. The carve-out is the largest, since the driver chooses one that is large enough
    unless the program does. Where the present one limits occupancy, the largest is a change of its
    own, and other changes are those that change more. What cannot be launched is left out.
    """
    for number in range(len(of.launch)):
        here = _resources_of(of, number)
        most = here.limits[3]
        now = float(here.occupancies(CARVEOUT, most)[0])
        if now > of.occupancy[number]:
            present = round(of.carveout_bytes[number])
            yield Change(number, CARVEOUT, present, round(most[0]), now)
        for resource, values, present in (
            (BLOCK, np.array(_BLOCK_SIZES, np.float64), here.threads),
            (REGISTERS, np.array(_REGISTERS_PER_THREAD, np.float64), here.registers),
            (SHARED, here.shared_sizes(), here.shared_bytes),
        ):
            reached = here.occupancies(resource, values)
            pairs = [*zip(values.tolist(), reached.tolist(), strict=True)]
            for value, occupancy in pairs if resource == BLOCK else _largest(pairs):
                if occupancy > 0 and not math.isclose(occupancy, now):
                    yield Change(number, resource, round(present), round(value), occupancy)


def curve(of: Configurations, number: int, resource: str) -> list[tuple[int, float]]:
    """Return the theoretical occupancy of a configuration by one of its resources, ascending.

    The present amount is among the points, and what cannot be launched has 0. Of shared memory,
    the points are the most with which an occupancy is reached. The carve-out is the largest.

    Args:
        of: The configurations.
        number: Which of them.
        resource: ``block size``, ``registers`` or ``shared memory``.
    """
    here = _resources_of(of, number)
    values, present = {
        BLOCK: (range(WARP_THREADS, _MOST_THREADS + 1, WARP_THREADS), here.threads),
        REGISTERS: (_REGISTERS_PER_THREAD, here.registers),
        SHARED: ([0, *here.shared_sizes().tolist()], here.shared_bytes),
    }[resource]
    amounts = np.unique(np.array([*values, present], np.float64))
    reached = here.occupancies(resource, amounts)
    if resource == SHARED:
        is_kept = np.append(reached[1:] != reached[:-1], True) | (amounts == present)
        amounts, reached = amounts[is_kept], reached[is_kept]
    return [*zip(amounts.astype(np.int64).tolist(), reached.tolist(), strict=True)]


def _resources_of(of: Configurations, number: int) -> _Resources:
    resources = (of.threads[number], of.registers[number], of.shared_bytes[number])
    return _Resources(*resources, of.limits[:, number : number + 1], of.by_barriers[number])


class _Resources(NamedTuple):
    threads: float
    registers: float
    shared_bytes: float
    limits: F64
    by_barriers: float

    def occupancies(self, resource: str, values: F64) -> F64:
        """Return the theoretical occupancy with each value of a resource, 0 if none is possible."""
        blank = np.zeros(len(values))
        threads, registers, shared_bytes = (
            values if resource == name else blank + present
            for name, present in zip((BLOCK, REGISTERS, SHARED), self[:3], strict=True)
        )
        by = block_limits(self.limits, threads, registers, shared_bytes)
        return by.occupancy(np.minimum(by.resident, self.by_barriers), self.limits)

    def shared_sizes(self) -> F64:
        """Return the most shared memory of a block with which an SM holds 1, 2, 3... blocks."""
        _, most_blocks, _, most, reserved, unit = self.limits[:, 0]
        blocks = np.arange(1, most_blocks + 1)
        sizes = np.floor(most / blocks / unit) * unit - reserved
        return np.asarray(sizes[sizes >= 0], np.float64)


def _largest(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the largest value with each occupancy, in ascending order."""
    largest = {occupancy: value for value, occupancy in sorted(pairs)}
    return sorted((value, occupancy) for occupancy, value in largest.items())
