"""The CUDA API calls that launched GPU operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.ops.arrays import I32, I64, BoolArray, Integers, joined
from warpline.ops.join import Lookup, lookup_rows
from warpline.trace import Trace

Launches = Mapping[str, Lookup]


class _Keys(NamedTuple):
    """The keys that match operations and calls; if `known` is False, the correlation is null."""

    process: Integers
    correlation: Integers
    known: BoolArray


@derived
def launch_calls(trace: Trace) -> Launches:
    """Return the row of `api_call` that launched each GPU operation, by table.

    There is an entry for each of `DEVICE_TABLES`, of shape (its rows,), empty if the table was
    not recorded. Rows are numbered in the tables' total order. An operation without a correlation
    id, or whose call is not in the trace, has no call.

    Operations and calls match by process and correlation id. Many operations may share one call:
    those of a CUDA graph traced at node level. Several nested calls may share a correlation id: a
    driver call inside its runtime call, or a call that is recorded a second time with its
    backtrace. The outermost call is used: the one that starts first and, among ties, ends last.
    (nsys counts such an operation once per call.)
    """
    keys = [_keys(trace, table) for table in DEVICE_TABLES]
    process, correlation, known = zip(*keys, strict=True)
    calls = _find(trace, _Keys(joined(process), joined(correlation), np.concatenate(known)))
    bounds = np.cumsum([len(of_table.known) for of_table in keys])[:-1]
    parts = zip(np.split(calls.row, bounds), np.split(calls.found, bounds), strict=True)
    return {table: Lookup(*part) for table, part in zip(DEVICE_TABLES, parts, strict=True)}


@derived
def launch_calls_in_any_order(trace: Trace, table: str) -> I32:
    """Return what `launch_calls` does for one table, in the order of its unordered columns.

    Shape (rows of the table,), -1 for an operation without a call. Sums over operations need no
    total order, and so neither the sort nor a second copy of the columns.
    """
    calls = _find(trace, _keys(trace, table, ordered=False))
    row = calls.row.astype(np.int32)
    row[~calls.found] = -1
    return row


def _find(trace: Trace, wanted: _Keys) -> Lookup:
    calls, rows = _keys(trace, "api_call"), _outermost_first(trace)
    keys: tuple[Integers, Integers] = calls.process, calls.correlation
    if not calls.known.all():
        rows = np.flatnonzero(calls.known) if rows is None else rows[calls.known[rows]]
    if rows is not None:
        keys = keys[0][rows], keys[1][rows]
    place, found = lookup_rows(wanted[:2], keys)
    found &= wanted.known
    if rows is not None and len(rows):
        place = rows[place]
    place[~found] = 0
    return Lookup(place, found)


def _keys(trace: Trace, table: str, *, ordered: bool = True) -> _Keys:
    if not trace.has(table):
        return _Keys(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    columns = trace.columns(table, "process_id", "correlation_id", ordered=ordered)
    process, correlation = columns["process_id"], columns["correlation_id"]
    return _Keys(process.values, correlation.values, correlation.is_valid())


def _outermost_first(trace: Trace) -> I64 | None:
    """Return the rows of `api_call` by start, then by decreasing end; None for all as they are.

    The total order differs only for calls with the same start: there the shorter call is first.
    """
    if not trace.has("api_call"):
        return None
    columns = trace.columns("api_call", "start_ns", "end_ns")
    start, end = columns["start_ns"].values, columns["end_ns"].values
    together = start[1:] == start[:-1]
    if not together.any():
        return None
    rows = np.arange(len(start))
    tied = np.flatnonzero(np.append(together, False) | np.append(False, together))
    rows[tied] = tied[np.lexsort((~end[tied], start[tied]))]
    return rows
