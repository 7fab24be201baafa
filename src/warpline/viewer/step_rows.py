"""The row of steps of each GPU, otherwise of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from warpline.trace import Run
from warpline.viewer.focus import step_lists
from warpline.viewer.lanes import lanes
from warpline.viewer.names import MERGED, Names, category
from warpline.viewer.rows import Events, Row, lane_label, split


def step_rows(run: Run, names: Names) -> dict[str, list[Row]]:
    """Return the rows of steps by the id of their group. They have the steps of the head.

    Steps that overlap, such as those of two loops on one GPU, are in separate lanes.

    Args:
        run: The trace, and the choice of its steps.
        names: Takes the labels.
    """
    rows: dict[str, list[Row]] = {}
    kinds = category("step"), category("excluded-step")
    for one in step_lists(run, 0):
        group = one["rows"][0]
        start, end = (np.array(one[key], np.int64) for key in ("start_ns", "end_ns"))
        name = [
            names.add(text, kinds[is_excluded])
            for text, is_excluded in zip(one["text"], one["excluded"], strict=True)
        ]
        events = Events(start, end, np.array(name, np.int64))
        rows[group] = list(_lanes(group, events, partial(names.add, MERGED, kinds[0])))
    return rows


def _lanes(group: str, events: Events, merged: Callable[[], int]) -> Iterator[Row]:
    together = np.zeros(len(events), np.int64)
    lane_of = lanes(events.start_ns, events.end_ns, together).astype(np.int64)
    for lane in split(events, together, lane_of, merged):
        yield Row(
            f"{group}/steps" + (f".{lane.depth}" if lane.depth else ""),
            group,
            lane_label("steps", lane),
            "step",
            depth=lane.depth,
            events=lane.events,
        )
