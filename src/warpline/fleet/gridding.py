"""The answer's columns by rank and step."""

from __future__ import annotations

import numpy as np

from warpline.derived.time_parts import TimePart
from warpline.fleet.blocks import blocks_of
from warpline.fleet.jobs import Job
from warpline.fleet.waiting import Waits
from warpline.result.fleet_grid import FleetGrid


def grid_of(job: Job, waits: Waits) -> FleetGrid:
    """Return what is known of each rank and step."""
    steps = max(len(job.step_index), 1)
    parts = np.zeros((len(job), steps, len(TimePart)), np.int64)
    for place, rank in enumerate(job.ranks):
        step = job.window_step[place]
        counted = np.flatnonzero(step >= 0)
        np.add.at(parts[place], step[counted], rank.windows.parts_ns[counted])
    blocks = blocks_of(job)
    taken = np.bincount(blocks.of_rank, job.counts, len(blocks.names))
    index = job.step_index if len(job.step_index) else np.full(1, -1, np.int64)
    return FleetGrid(
        step_index=index,
        parts=tuple((part.label, "busy" if part.is_busy else "idle") for part in TimePart),
        parts_ns=parts,
        wait_ns=waits.wait_ns,
        exposed_ns=waits.exposed_ns,
        caused_ns=waits.caused_ns,
        transfer_ns=waits.transfer_ns,
        blocks=blocks.names,
        ranks_per_block=np.bincount(blocks.of_rank, minlength=len(blocks.names)),
        between_ns=waits.between_ns / np.maximum(taken, 1),
    )
