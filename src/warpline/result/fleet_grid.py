"""Every rank and step of a job, for the page of `fleet analyze` and for Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from warpline.lazy import lazy
from warpline.ops.arrays import F64, I64

if TYPE_CHECKING:
    import polars as pl

    from warpline.result.fleet import FleetRank
else:
    pl = lazy("polars")


class Windows(NamedTuple):
    """Times of steps on one rank's GPU.

    Attributes:
        step: Shape (windows,), int64, the place of the step; -1 if it does not count.
        parts_ns: Shape (windows, parts), int64.
    """

    step: I64
    parts_ns: I64


@dataclass(frozen=True, eq=False)
class FleetGrid:
    """The steps that count of all ranks; a rank that lacks a step has 0 there.

    Attributes:
        step_index: Shape (steps,), int64, numbers of the steps; -1 for whole recordings.
        step_ns: Shape (ranks, steps), int64, the length of each step on the rank's GPU.
        parts: Category and kind of each part, in order, as in `FleetPart`.
        windows: The times of steps on each rank's GPU, of which those that count add up to the
            steps. They are shared with the summaries, not copied: they are most of the memory.
        wait_ns: Shape (ranks, steps), float64, how long the rank waited for others.
        exposed_ns: Shape (ranks, steps), float64, the part of it without computing.
        caused_ns: Shape (ranks, steps), float64, how long others waited where it arrived last.
        transfer_ns: Shape (ranks, steps), float64, the rest of its collectives' time.
        blocks: Names of the rows and columns of `between_ns`: ranks, machines, or several of these.
        ranks_per_block: Shape (blocks,), int64.
        between_ns: Shape (blocks, blocks), float64: how long a rank of the second block waits
            without computing where a rank of the first arrives last, mean per step.
    """

    step_index: I64
    step_ns: I64
    parts: tuple[tuple[str, str], ...]
    windows: tuple[Windows, ...]
    wait_ns: F64
    exposed_ns: F64
    caused_ns: F64
    transfer_ns: F64
    blocks: tuple[str, ...]
    ranks_per_block: I64
    between_ns: F64

    def parts_ns(self, place: int) -> I64:
        """Return shape (steps, parts), int64: a rank's parts; those of a step add up to it."""
        step, parts_ns = self.windows[place]
        found = np.zeros((len(self.step_index), len(self.parts)), np.int64)
        counted = np.flatnonzero(step >= 0)
        np.add.at(found, step[counted], parts_ns[counted])
        return found

    def to_polars(self, ranks: Sequence[FleetRank]) -> pl.DataFrame:
        """Return a row per rank and step that the rank has, times in ns, integers.

        Args:
            ranks: The ranks, in the order of the rows.
        """
        row, step = np.nonzero(self.step_ns)
        of_rank = pl.DataFrame(
            [(item.rank, item.name, item.pid, item.host, item.device, item.path) for item in ranks],
            schema={
                "rank": pl.Int64,
                "name": pl.String,
                "pid": pl.Int64,
                "host": pl.String,
                "device": pl.Int64,
                "path": pl.String,
            },
            orient="row",
        )
        number = self.step_index[step]
        times = {
            "step_ns": self.step_ns,
            "wait_ns": self.wait_ns,
            "exposed_wait_ns": self.exposed_ns,
            "caused_ns": self.caused_ns,
            "transfer_ns": self.transfer_ns,
        }
        columns = [pl.Series("step", number).set(pl.Series(number < 0), None)]
        columns += [
            pl.Series(name, np.rint(values[row, step]).astype(np.int64))
            for name, values in times.items()
        ]
        parts = np.concatenate(
            [self.parts_ns(place)[length > 0] for place, length in enumerate(self.step_ns)]
        )
        columns += [
            pl.Series(f"{kind}_{category.lower().replace('-', '_')}_ns", parts[:, at])
            for at, (category, kind) in enumerate(self.parts)
        ]
        return of_rank[row.tolist()].hstack(columns)
