"""What an SM holds, by compute capability: the tables of CUDA's programming guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WARP_THREADS = 32
REGISTER_UNIT = 256  # registers of a warp are allocated in multiples of this
PARTITIONS = 4  # of an SM, each with a quarter of its registers, and a scheduler
MOST_REGISTERS = 255  # of a thread


class SmLimits(NamedTuple):
    """The limits of an SM.

    Attributes:
        warps: Resident warps.
        blocks: Resident blocks.
        registers: Registers.
        shared_bytes: Shared memory, at the largest carve-out.
        reserved_shared_bytes: Shared memory that the driver uses in each block.
        shared_unit_bytes: Shared memory of a block is allocated in multiples of this.
    """

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_shared_bytes: int = 1 << 10
    shared_unit_bytes: int = 128


_KIB = 1 << 10
_REGISTERS = 64 * _KIB
_LIMITS: Mapping[tuple[int, int], SmLimits] = {
    (7, 0): SmLimits(64, 32, _REGISTERS, 96 * _KIB, 0, 256),
    (7, 5): SmLimits(32, 16, _REGISTERS, 64 * _KIB, 0, 256),
    (8, 0): SmLimits(64, 32, _REGISTERS, 164 * _KIB),
    (8, 6): SmLimits(48, 16, _REGISTERS, 100 * _KIB),
    (8, 7): SmLimits(48, 16, _REGISTERS, 164 * _KIB),
    (8, 9): SmLimits(48, 24, _REGISTERS, 100 * _KIB),
    (9, 0): SmLimits(64, 32, _REGISTERS, 228 * _KIB),
    (10, 0): SmLimits(64, 32, _REGISTERS, 228 * _KIB),
    (10, 3): SmLimits(64, 32, _REGISTERS, 228 * _KIB),
    (12, 0): SmLimits(48, 24, _REGISTERS, 100 * _KIB),
}


def sm_limits(major: int, minor: int) -> SmLimits | None:
    """Return the limits of a compute capability; None if unknown."""
    return _LIMITS.get((major, minor))
