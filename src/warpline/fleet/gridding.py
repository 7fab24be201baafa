"""The answer's columns by rank and step."""

from __future__ import annotations

import numpy as np

from warpline.derived.time_parts import TimePart
from warpline.fleet.blocks import blocks_of
from warpline.fleet.jobs import Job
from warpline.fleet.waiting import Waits
from warpline.result.fleet_grid import FleetGrid, Windows


def grid_of(job: Job, waits: Waits) -> FleetGrid:
    """Return what is known of each rank and step."""
    index = job.step_index if len(job.step_index) else np.full(1, -1, np.int64)
    step_ns = np.zeros((len(job), len(index)), np.int64)
    windows = []
    for place, rank in enumerate(job.ranks):
        step, parts_ns = job.window_step[place], rank.windows.parts_ns
        counted = np.flatnonzero(step >= 0)
        np.add.at(step_ns[place], step[counted], parts_ns.sum(axis=1)[counted])
        windows.append(Windows(step, parts_ns))
    blocks = blocks_of(job)
    taken = np.bincount(blocks.of_rank, job.counts, len(blocks.names))
    return FleetGrid(
        step_index=index,
        step_ns=step_ns,
        parts=tuple((part.label, "busy" if part.is_busy else "idle") for part in TimePart),
        windows=tuple(windows),
        wait_ns=waits.all_wait_ns,
        exposed_ns=waits.all_exposed_ns,
        caused_ns=waits.caused_ns,
        transfer_ns=waits.transfer_ns,
        blocks=blocks.names,
        ranks_per_block=np.bincount(blocks.of_rank, minlength=len(blocks.names)),
        between_ns=waits.between_ns / np.maximum(taken, 1),
    )
