"""The readings of each GPU and of the machine, in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.tiling import by_group
from warpline.schema import TABLES
from warpline.trace import ColumnData, Trace

MACHINE = -1  # the process of readings of the whole machine


class Known(NamedTuple):
    """The readings of one column that have a value.

    Attributes:
        at_ns: Shape (k,), int64, when each reading began, ascending.
        values: Shape (k,), float64.
    """

    at_ns: I64
    values: F64


@frozen
class Readings:
    """Readings of one thing, by time.

    Attributes:
        of: Row of the device table, or of the process table; `MACHINE` for the machine.
        row: Shape (n,), int64, rows of the table that they come from.
        start_ns: Shape (n,), int64, when each reading began, ascending.
        end_ns: Shape (n,), int64, when it ended, never before its start.
        columns: The other columns by name, each of shape (n,).
    """

    of: int
    row: I64
    start_ns: I64
    end_ns: I64
    columns: dict[str, ColumnData]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def period_ns(self) -> float:
        """The median time between two readings; 0 with fewer than two."""
        return float(np.median(np.diff(self.start_ns))) if len(self) > 1 else 0.0

    def is_known(self, name: str) -> BoolArray:
        """Return which readings have a value in a column, shape (n,)."""
        return self.columns[name].is_valid()

    def known(self, name: str) -> Known:
        """Return the values of a column where there is one."""
        rows = np.flatnonzero(self.is_known(name))
        return Known(self.start_ns[rows], self.columns[name].values[rows].astype(np.float64))

    def increase(self, name: str) -> float | None:
        """Return by how much a counter grew; None with fewer than two values, or if it fell."""
        values = self.known(name).values
        if len(values) < 2 or (np.diff(values) < 0).any():
            return None
        return float(values[-1] - values[0])

    def rate(self, name: str) -> float | None:
        """Return the growth of a counter per second; None where `increase` is, or without time."""
        grown, at_ns = self.increase(name), self.known(name).at_ns
        if grown is None or at_ns[-1] <= at_ns[0]:
            return None
        return grown / (int(at_ns[-1] - at_ns[0]) / 1e9)

    def inside(self, start_ns: I64, end_ns: I64) -> BoolArray:
        """Return which readings begin within some spans, ascending and disjoint, shape (n,)."""
        if not len(start_ns):
            return np.zeros(len(self), np.bool_)
        place = np.searchsorted(start_ns, self.start_ns, side="right") - 1
        found: BoolArray = (place >= 0) & (self.start_ns < end_ns[np.maximum(place, 0)])
        return found

    def chosen(self, chosen: BoolArray) -> Readings:
        """Return some of the readings."""
        rows = np.flatnonzero(chosen)
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return Readings(self.of, self.row[rows], self.start_ns[rows], self.end_ns[rows], columns)


@derived
def gpu_readings(trace: Trace) -> tuple[Readings, ...]:
    """Return the readings of each GPU that has any, in order of the device table."""
    return _readings(trace, "gpu_health", "device_id")


@derived
def host_readings(trace: Trace) -> tuple[Readings, ...]:
    """Return the readings of the machine, and then those of each process.

    Files from several machines do not show which one a reading is of: then those of the machines
    are left out.
    """
    every = _readings(trace, "host_health", "process_id")
    host, is_one_file = trace.meta.host, len(trace.meta.paths) <= 1
    is_one_machine = is_one_file or (host is not None and ", " not in host)
    return every if is_one_machine else tuple(each for each in every if each.of != MACHINE)


def machine_readings(trace: Trace) -> Readings | None:
    """Return the readings of the machine, None without any."""
    return next((each for each in host_readings(trace) if each.of == MACHINE), None)


def _readings(trace: Trace, table: str, owner: str) -> tuple[Readings, ...]:
    if not trace.has(table) or not trace.row_count(table):
        return ()
    fixed = ("start_ns", "end_ns", owner)
    names: Sequence[str] = [column.name for column in TABLES[table].columns]
    columns = trace.columns(table, *names)
    start, end = columns["start_ns"].values, columns["end_ns"].values
    owners = columns[owner].filled(MACHINE).astype(np.int64)
    return tuple(
        Readings(
            int(owners[rows[0]]),
            rows,
            start[rows],
            np.maximum(start, end)[rows],
            {name: columns[name].take(rows) for name in names if name not in fixed},
        )
        for rows in by_group(owners)
    )
