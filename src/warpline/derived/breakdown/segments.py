"""An exact tiling of each device's time: its work at each moment, or the cause of idle time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.causes import idle_pieces
from warpline.derived.idle.gaps import Gaps, Pieces
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I8, I64, BoolArray, is_repeated, joined, repeated, taken
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
            time, the one that ended it; -1 after the last. Idle time before page migrations belongs
            to the next other operation: nobody launches them.
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
    is_migration = category == TimePart.COPY_MANAGED
    low, high = trace.span()
    busy, idle = _busy_and_idle(work, category, is_migration, low, high)
    pieces = idle_pieces(trace, idle)
    device, part = taken(work.device, busy.owner), category[busy.owner]
    return _assembled(busy, device, part, idle, pieces, high)


class _Busy(NamedTuple):
    """Pieces of time with work, by device and start: when they start, and the operation."""

    start_ns: I64
    owner: I64


def _busy_and_idle(
    work: Operations, category: I8, is_migration: BoolArray, low: int, high: int
) -> tuple[_Busy, Gaps]:
    """Return the time of each device with and without work, between `low` and `high`."""
    busy: list[_Busy] = []
    gaps: list[Gaps] = []
    for first, last in work.bounds_of_devices():
        rows, device = slice(first, last), int(work.device[first])
        start, end = clip(work.start_ns[rows], work.end_ns[rows], low, high)
        tiles = tile(start, end, category[rows])
        if first:
            tiles = tiles._replace(owner=tiles.owner + first)
        busy.append(_Busy(tiles.start_ns, tiles.owner))
        gaps.append(_gaps(tiles, is_migration[tiles.owner], low, high, device))
    return (
        _Busy(*_concatenated(busy, len(_Busy._fields))),
        Gaps(*_concatenated(gaps, len(Gaps._fields))),
    )


def _gaps(tiles: Tiles, migrates: BoolArray, low: int, high: int, device: int) -> Gaps:
    """Return the times within a window without a tile of the device."""
    start = np.append(low, tiles.end_ns)
    end = np.append(tiles.start_ns, high)
    open_ones = np.flatnonzero(end > start)
    upcoming = open_ones
    if migrates.any():
        others = np.append(np.flatnonzero(~migrates), len(tiles.owner))
        upcoming = others[np.searchsorted(others, open_ones)]
    return Gaps(
        device=repeated(np.array([device]), len(open_ones)),
        start_ns=start[open_ones],
        end_ns=end[open_ones],
        before=np.append(_NOTHING, tiles.owner)[open_ones],
        after=np.append(tiles.owner, _NOTHING)[upcoming],
    )


def _assembled(
    busy: _Busy, device: I64, category: I8, gaps: Gaps, pieces: Pieces, high: int
) -> Segments:
    """Return busy and idle pieces in one list; those of each device end at `high`."""
    start = np.append(busy.start_ns, pieces.start_ns)
    if is_repeated(device):  # one device, as the gaps between its operations
        where = repeated(device[:1], len(start))
        order = np.argsort(start, kind="stable")
    else:
        where = np.append(device, gaps.device[pieces.gap])
        order = np.lexsort((start, where))
    # Each ends where the next one starts, so that both are views of the same times.
    bounds, where = np.append(start[order], high), taken(where, order)
    start, end = bounds[:-1], bounds[1:]
    if not is_repeated(where):
        end = end.copy()
        end[np.flatnonzero(np.diff(where, append=_NOTHING))] = high
    # Column by column: unordered columns of all of them would take as much memory as the result.
    return Segments(
        device=where,
        start_ns=start,
        end_ns=end,
        part=np.append(category, pieces.cause).astype(np.int8)[order],
        operation=np.append(busy.owner, gaps.after[pieces.gap])[order],
    )


def _concatenated(parts: list[_Busy] | list[Gaps], width: int) -> list[I64]:
    """Return the concatenated columns of several tables; those of a single one as they are."""
    if len(parts) == 1:
        return list(parts[0])
    nothing = np.zeros(0, np.int64)
    return [joined([*(part[place] for part in parts), nothing]) for place in range(width)]
