"""Annotations of a snapshot, such as the optimizer's steps, as named intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.trace.allocator_snapshots.fields import items_of, numbers, texts

_PLACE = "external_annotations"
_MOST_US = 1 << 53


class Annotations(NamedTuple):
    """Intervals, in the order in which they began.

    Attributes:
        start_us: Shape (n,), int64, times of the snapshot.
        end_us: Shape (n,), int64; of an open one, `start_us`.
        is_open: Shape (n,), bool, whether the end is missing.
        names: The name of each.
    """

    start_us: I64
    end_us: I64
    is_open: BoolArray
    names: list[str]


def read_annotations(value: Any) -> Annotations:
    """Return the intervals of a list of starts and ends.

    An end is that of the last open one with its name and device; other ends are left out.

    Raises:
        CorruptTraceError: It is something else.
    """
    items = items_of(value or (), _PLACE)
    times = numbers(items, "time_us", _PLACE, below=_MOST_US)[0].tolist()
    devices = numbers(items, "device", _PLACE)[0].tolist()
    names, stages = (texts(items, key, _PLACE) for key in ("name", "stage"))
    starts: list[int] = []
    ends: dict[int, int] = {}
    open_ones: dict[tuple[int, str], list[int]] = {}
    shown: list[str] = []
    for time, device, name, stage in zip(times, devices, names, stages, strict=True):
        own = open_ones.setdefault((device, name or ""), [])
        if stage == "START":
            own.append(len(starts))
            starts.append(time)
            shown.append(name or "")
        elif stage == "END" and own:
            ends[own.pop()] = time
    found = [ends.get(number, start) for number, start in enumerate(starts)]
    is_open = np.array([number not in ends for number in range(len(starts))], np.bool_)
    return Annotations(np.array(starts, np.int64), np.array(found, np.int64), is_open, shown)
