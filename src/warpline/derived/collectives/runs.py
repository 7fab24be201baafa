"""Runs of small collectives that are launched one after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Run

# Messages of this size take as long as empty ones, or little longer: at most 3 us over NVLink.
_SMALL_BYTES = 256 * 1024
# The time of a small message on one host, where sizes are not recorded.
_SMALL_NS = 20_000
_MOST_BETWEEN = 2  # operations that prepare or scale a collective's data


class SmallRuns(NamedTuple):
    """Small collectives of one kind and step, each launched next after the one before.

    Attributes:
        operation: Shape (n,), int64, places in `operations`, by run and launch.
        run: Shape (n,), int64, numbers of runs: 0, 0, 1, 1...
        moving_ns: Shape (n,), int64, time of each without waits for other ranks.
    """

    operation: I64
    run: I64
    moving_ns: I64

    @property
    def first(self) -> I64:
        """Shape (runs,), int64, the first collective of each run, a place in these arrays."""
        return np.flatnonzero(np.diff(self.run, prepend=-1))


@derived
def small_runs(run: Run) -> SmallRuns:
    """Return the runs of at least two small collectives.

    Collectives with more than two operations launched in between may depend on each other, such as
    those of the layers of a model, and are not in one run.
    """
    sequences, is_collective = launch_sequences(run), _collectives(run)
    place = np.flatnonzero(is_collective[sequences.operation])
    every = sequences.operation[place]
    kinds, moving = collective_kinds(run.trace, every), _moving_ns(run)[every]
    is_small = np.where(kinds.bytes >= 0, kinds.bytes <= _SMALL_BYTES, moving <= _SMALL_NS)
    place, operation, moving = place[is_small], every[is_small], moving[is_small]
    kind = kinds.operation[is_small]
    opens = np.diff(place, prepend=-_MOST_BETWEEN - 2) > _MOST_BETWEEN + 1
    opens |= np.diff(kind, prepend=-1) != 0
    opens |= np.diff(sequences.step[place], prepend=-1) != 0
    number = np.cumsum(opens) - 1
    is_run = np.bincount(number, minlength=1)[number] > 1 if len(number) else opens
    _, number = np.unique(number[is_run], return_inverse=True)
    return SmallRuns(operation[is_run], number.reshape(-1), moving[is_run])


def _collectives(run: Run) -> BoolArray:
    is_collective: BoolArray = operation_categories(run.trace) == TimePart.COLLECTIVE
    return is_collective


def _moving_ns(run: Run) -> I64:
    """Return the time of each operation without waits for other ranks, shape (operations,)."""
    work, waits = operations(run.trace), collective_waits(run)
    moving = work.end_ns - work.start_ns
    moving[waits.operation] = waits.transfer_ns
    return moving
