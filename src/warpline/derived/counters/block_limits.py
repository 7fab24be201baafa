"""How many blocks of a kernel an SM holds at a time, by CUDA's rules of occupancy."""

from __future__ import annotations

import numpy as np

from warpline.frozen import frozen
from warpline.hardware.sm_limits import PARTITIONS, REGISTER_UNIT, WARP_THREADS, sm_limits
from warpline.ops.arrays import F64
from warpline.trace import Trace

LIMITS = 6  # numbers of `SmLimits`


@frozen
class BlockLimits:
    """The blocks that each resource of an SM has room for. All have the same shape, float64.

    Attributes:
        blocks: By the number of blocks that an SM holds.
        registers: By registers; infinite or NaN without any.
        shared: By shared memory; infinite if none is used.
        warps: By the number of warps that an SM holds.
        block_warps: Warps of a block.
        allocated_registers: Registers per thread as allocated.
        allocated_shared_bytes: Shared memory per block as allocated, with the driver's own.
    """

    blocks: F64
    registers: F64
    shared: F64
    warps: F64
    block_warps: F64
    allocated_registers: F64
    allocated_shared_bytes: F64

    @property
    def without_shared(self) -> F64:
        """The blocks that an SM holds if it has enough shared memory."""
        return np.minimum(np.minimum(self.warps, self.registers), self.blocks)

    @property
    def resident(self) -> F64:
        """The blocks that an SM holds."""
        return np.minimum(self.without_shared, self.shared)

    def occupancy(self, blocks: F64, limits: F64) -> F64:
        """Return the share of the warps of an SM that some blocks have, in [0, 1]."""
        return np.asarray(blocks * self.block_warps / limits[0], np.float64)


def block_limits(
    limits: F64, threads: F64, registers: F64, shared_bytes: F64, carveout_bytes: F64 | None = None
) -> BlockLimits:
    """Return the limits of kernels, given their resources.

    Registers are allocated per warp, in each of the partitions of an SM. A block has shared memory
    for the driver beside its own, and both are allocated in units.

    Args:
        limits: Numbers of `SmLimits`, shape (6, ...); the rest of the shape is that of the others,
            which are broadcast.
        threads: Threads of a block.
        registers: Registers per thread.
        shared_bytes: Shared memory of a block, static and dynamic.
        carveout_bytes: Shared memory of an SM as configured; by default the most it can have.
    """
    most_warps, most_blocks, most_registers, most_shared, reserved, unit = limits
    with np.errstate(divide="ignore", invalid="ignore"):
        warps = np.ceil(threads / WARP_THREADS)
        of_warp = np.ceil(registers * WARP_THREADS / REGISTER_UNIT) * REGISTER_UNIT
        resident = np.floor(most_registers / PARTITIONS / of_warp) * PARTITIONS
        of_block = np.ceil((shared_bytes + reserved) / unit) * unit
        configured = most_shared if carveout_bytes is None else carveout_bytes
        by_shared = np.where(of_block > 0, np.floor(configured / of_block), np.inf)
        found = (
            most_blocks,
            np.floor(resident / warps),
            by_shared,
            np.floor(most_warps / warps),
            warps,
            of_warp / WARP_THREADS,
            of_block,
        )
    return BlockLimits(*np.broadcast_arrays(*found))


def limits_of_launches(trace: Trace) -> F64:
    """Return `SmLimits` of the GPU of each profiled launch, shape (6, launches); zeros if unknown.

    They are known by compute capability.
    """
    launches = trace.columns("profiled_kernel", "device_id")["device_id"]
    count = trace.row_count("device") if trace.has("device") else 0
    limits = np.zeros((count + 1, LIMITS))  # the last row is of launches without a GPU
    if count:
        facts = trace.columns("device", "compute_major", "compute_minor")
        capabilities = (column.filled(-1).tolist() for column in facts.values())
        for row, (major, minor) in enumerate(zip(*capabilities, strict=True)):
            limits[row] = sm_limits(major, minor) or 0
    return np.ascontiguousarray(limits[launches.filled(count)].T)
