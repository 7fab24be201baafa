"""The host calls that launched device work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I64, BoolArray, Integers
from warpline.ops.join import Lookup, lookup_rows
from warpline.trace import Trace

Launches = Mapping[str, Lookup]


class _Keys(NamedTuple):
    """What operations and calls match by; where `known` is False the correlation is null."""

    process: Integers
    correlation: Integers
    known: BoolArray


@derived
def launch_calls(trace: Trace) -> Launches:
    """Return the row of `api_call` that launched each device operation, by device table.

    There is an entry for each of `DEVICE_TABLES`, of shape (its rows,), empty if it was not
    recorded; rows count in the tables' total order. An operation without a correlation, or whose
    call is not in the trace, has no call.

    Operations and calls match by process and correlation. Many operations may share one call:
    those of a graph recorded node by node. Several calls may share a correlation where one ran
    inside the other: a driver call inside its runtime call, or a call that was also recorded
    with its call chain. The outermost one answers: it starts first, and of those that start
    together it ends last. (nsys counts such an operation once for each of its calls.)
    """
    keys = [_keys(trace, table) for table in DEVICE_TABLES]
    found = _find(trace, _Keys(*(np.concatenate(part) for part in zip(*keys, strict=True))))
    bounds = np.cumsum([len(of_table.known) for of_table in keys])[:-1]
    parts = zip(np.split(found.row, bounds), np.split(found.found, bounds), strict=True)
    return {table: Lookup(*part) for table, part in zip(DEVICE_TABLES, parts, strict=True)}


def _find(trace: Trace, wanted: _Keys) -> Lookup:
    calls, rows = _keys(trace, "api_call"), _outermost_first(trace)
    rows = rows[calls.known[rows]]
    place, found = lookup_rows(wanted[:2], (calls.process[rows], calls.correlation[rows]))
    found = found & wanted.known
    row = np.zeros(len(found), np.int64)
    row[found] = rows[place[found]]
    return Lookup(row, found)


def _keys(trace: Trace, table: str) -> _Keys:
    if not trace.has(table):
        return _Keys(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    columns = trace.columns(table, "process_id", "correlation_id")
    process, correlation = columns["process_id"], columns["correlation_id"]
    return _Keys(process.values, correlation.values, correlation.is_valid())


def _outermost_first(trace: Trace) -> I64:
    """Return the rows of `api_call` by start, then by falling end.

    The total order differs only where calls start together: there the shorter one is first.
    """
    if not trace.has("api_call"):
        return np.zeros(0, np.int64)
    columns = trace.columns("api_call", "start_ns", "end_ns")
    start, end = columns["start_ns"].values, columns["end_ns"].values
    rows = np.arange(len(start))
    together = start[1:] == start[:-1]
    tied = np.flatnonzero(np.append(together, False) | np.append(False, together))
    rows[tied] = tied[np.lexsort((~end[tied], start[tied]))]
    return rows
