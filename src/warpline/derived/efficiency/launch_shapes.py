"""Blocks and threads of each GPU operation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.trace import Trace

_AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
# CUDA's limits; a damaged recording has larger numbers, whose products must not overflow.
_MOST = (1 << 30, 1 << 16, 1 << 16, 1 << 10, 1 << 10, 1 << 10)
_MOST_BLOCKS, _MOST_THREADS = 1 << 36, 1 << 10


class LaunchShapes(NamedTuple):
    """Grids and blocks; 0 for operations that are no kernels, and where nothing was recorded.

    Attributes:
        blocks: Shape (operations,), int64, blocks of the grid.
        block_threads: Shape (operations,), int64, threads of a block.
        block_rows: Shape (operations,), int64, threads of a block in y.
        batches: Shape (operations,), int64, blocks of the grid in z.
    """

    blocks: I64
    block_threads: I64
    block_rows: I64
    batches: I64


@derived
def launch_shapes(trace: Trace) -> LaunchShapes:
    """Return the blocks and threads of each GPU operation."""
    work, kernels = operations(trace), operations(trace).of_table("kernel")
    shapes = LaunchShapes(*(np.zeros(len(work), np.int64) for _ in range(4)))
    if len(kernels):
        # All at once: the rows of a file are read once.
        columns = trace.columns("kernel", *_AXES)
        x, y, z, *block = (
            np.clip(columns[axis].values, 0, most) for axis, most in zip(_AXES, _MOST, strict=True)
        )
        rows = work.row[kernels]
        shapes.blocks[kernels] = np.minimum(x * y * z, _MOST_BLOCKS)[rows]
        threads = block[0] * block[1] * block[2]
        shapes.block_threads[kernels] = np.minimum(threads, _MOST_THREADS)[rows]
        shapes.block_rows[kernels] = block[1][rows]
        shapes.batches[kernels] = z[rows]
    return shapes


@derived
def blocks_in_x(trace: Trace) -> I64:
    """Return the blocks of each GPU operation's grid in x: at most all, and faster to read."""
    work, kernels = operations(trace), operations(trace).of_table("kernel")
    blocks = np.zeros(len(work), np.int64)
    if len(kernels):
        blocks[kernels] = trace.columns("kernel", "grid_x")["grid_x"].values[work.row[kernels]]
    return blocks
