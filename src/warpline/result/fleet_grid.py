"""Every rank and step of a job, for the page of `fleet analyze` and for Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpline.lazy import lazy
from warpline.ops.arrays import F64, I64

if TYPE_CHECKING:
    import polars as pl

    from warpline.result.fleet import FleetRank
else:
    pl = lazy("polars")


@dataclass(frozen=True, eq=False)
class FleetGrid:
    """The steps that count of all ranks; a rank that lacks a step has 0 there.

    Attributes:
        step_index: Shape (steps,), int64, numbers of the steps; -1 for whole recordings.
        parts: Category and kind of each part, in order, as in `FleetPart`.
        parts_ns: Shape (ranks, steps, parts), int64; the sum of a step's parts is its length.
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
    parts: tuple[tuple[str, str], ...]
    parts_ns: I64
    wait_ns: F64
    exposed_ns: F64
    caused_ns: F64
    transfer_ns: F64
    blocks: tuple[str, ...]
    ranks_per_block: I64
    between_ns: F64

    @property
    def step_ns(self) -> I64:
        """Shape (ranks, steps), int64, the length of each step on the rank's GPU."""
        lengths: I64 = self.parts_ns.sum(axis=2)
        return lengths

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
        columns += [
            pl.Series(
                f"{kind}_{category.lower().replace('-', '_')}_ns", self.parts_ns[row, step, at]
            )
            for at, (category, kind) in enumerate(self.parts)
        ]
        return of_rank[row.tolist()].hstack(columns)
