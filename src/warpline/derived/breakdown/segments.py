"""An exact tiling of each device's time: its work at each moment, or the cause of idle time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.causes import idle_pieces
from warpline.derived.idle.gaps import Gaps, Pieces
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64
from warpline.ops.interval import clip
from warpline.ops.tiling import Tiles, tile
from warpline.trace import Trace

_NOTHING = -1


@dataclass(frozen=True)
class Segments:
    """Pieces of the devices' time, by device and start.

    They tile `Trace.span` of each device with operations, without gaps or overlaps.

    Attributes:
        device: Shape (n,), int64, rows of the device table.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, after the start.
        part: Shape (n,), int8, members of `TimePart`.
        operation: Shape (n,), int64, indices into `operations`: the operation that ran or, for idle
            time, the one that ended it; -1 after the last.
    """

    device: I64
    start_ns: I64
    end_ns: I64
    part: I8
    operation: I64

    def __len__(self) -> int:
        return len(self.device)


@derived
def device_segments(trace: Trace) -> Segments:
    """Return the work of each device at each moment, and the causes of its idle time.

    Overlapped time counts once: for the category that comes first in `TimePart`, and within
    it for the operation that started first. `idle.causes` determines the causes of idle time.
    """
    work, category = operations(trace), operation_categories(trace)
    low, high = trace.span()
    bounds = np.append(np.flatnonzero(np.diff(work.device, prepend=-1)), len(work))
    tiles: list[Tiles] = []
    gaps: list[Gaps] = []
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = slice(first, last)
        start, end = clip(work.start_ns[rows], work.end_ns[rows], low, high)
        tiled = tile(start, end, category[rows])
        tiles.append(tiled._replace(owner=tiled.owner + first))
        gaps.append(_gaps(tiles[-1], int(work.device[first]), low, high))
    busy = _joined_tiles(tiles)
    idle = Gaps(*_concatenated(gaps, len(Gaps._fields)))
    pieces = idle_pieces(trace, idle)
    return _assembled(busy, work.device[busy.owner], category[busy.owner], idle, pieces)


def _gaps(tiles: Tiles, device: int, low: int, high: int) -> Gaps:
    """Return the times within a window without a tile of the device."""
    start = np.append(low, tiles.end_ns)
    end = np.append(tiles.start_ns, high)
    before, after = np.append(_NOTHING, tiles.owner), np.append(tiles.owner, _NOTHING)
    open_ones = np.flatnonzero(end > start)
    return Gaps(
        device=np.full(len(open_ones), device, np.int64),
        start_ns=start[open_ones],
        end_ns=end[open_ones],
        before=before[open_ones],
        after=after[open_ones],
    )


def _assembled(busy: Tiles, device: I64, category: I8, gaps: Gaps, pieces: Pieces) -> Segments:
    """Return busy and idle pieces in one list."""
    start = np.append(busy.start_ns, pieces.start_ns)
    end = np.append(busy.end_ns, pieces.end_ns)
    where = np.append(device, gaps.device[pieces.gap])
    part = np.append(category, pieces.cause).astype(np.int8)
    owner = np.append(busy.owner, gaps.after[pieces.gap])
    order = np.lexsort((start, where))
    return Segments(
        device=where[order],
        start_ns=start[order],
        end_ns=end[order],
        part=part[order],
        operation=owner[order],
    )


def _joined_tiles(parts: list[Tiles]) -> Tiles:
    return Tiles(*_concatenated(parts, len(Tiles._fields)))


def _concatenated(parts: list[Tiles] | list[Gaps], width: int) -> list[I64]:
    """Return the concatenated columns of several tables."""
    nothing = np.zeros(0, np.int64)
    return [np.concatenate([nothing, *(part[place] for part in parts)]) for place in range(width)]
