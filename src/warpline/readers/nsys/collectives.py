"""Collective operations, from NCCL's ranges and payloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import Field, Reading, process, required, thread
from warpline.readers.nsys.identity import PROCESS_MASK
from warpline.readers.nsys.payload import Payloads
from warpline.readers.nsys.ranges import EVENTS, NvtxEvents, event_name
from warpline.schema import TABLES
from warpline.trace.collectives import (
    DOMAIN,
    INIT,
    OPERATION,
    Ranks,
    Values,
    ranks_of,
    values_of,
)
from warpline.trace.column import ColumnData, make_column, null_column

_DOMAIN = DOMAIN.encode()


class Collectives:
    """The table collective.

    A range is a collective if it has the name of an NCCL function that moves data and is in the
    domain "NCCL", or in a domain created before the recording. Sizes and communicators are known
    only if the export holds payloads. Rank and rank count are known only if the communicator was
    created in the same process during the recording.
    """

    def __init__(self, reading: Reading, events: NvtxEvents, payloads: Payloads) -> None:
        self._reading = reading
        self._events = events
        self._payloads = payloads

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table collective."""
        return {name: self._column(name) for name in columns}

    def _column(self, name: str) -> ColumnData:
        spec = TABLES["collective"].column(name)
        places = np.searchsorted(self._events.range_rows, self._rows)
        if name == "range_id":
            return make_column(spec, places)
        if name == "end_ns":
            return make_column(spec, self._events.range_ends()[0][places])
        if name in _FIELDS:
            table = SourceTable(self._reading.export, EVENTS, self._rows)
            return _FIELDS[name].load(self._reading, table, spec)
        if name not in self._values:  # only other formats record it
            return null_column(spec, len(self))
        values = self._values[name]
        intern = self._reading.names.pool.intern_text
        stored = [intern(value) if isinstance(value, str) else value or 0 for value in values]
        return make_column(spec, stored, np.array([v is not None for v in values], np.bool_))

    @cached_property
    def _rows(self) -> I64:
        """Rows of NVTX_EVENTS that are collective operations, ascending."""
        return self._named(OPERATION)

    def _named(self, pattern: re.Pattern[str]) -> I64:
        names, rows = self._candidates
        codes, distinct = np.unique(names, return_inverse=True)[::-1]
        texts = self._reading.names.pool.texts(distinct)
        is_match = np.array([bool(pattern.fullmatch(text)) for text in texts], np.bool_)
        return rows[is_match[codes]] if len(rows) else rows

    @cached_property
    def _candidates(self) -> tuple[I32, I64]:
        """Name and row of every range in a domain that may be NCCL's."""
        rows = self._events.range_rows
        table = SourceTable(self._reading.export, EVENTS, rows)
        coded = table.codes("domainId")  # null is 0, the default
        ids = np.asarray(coded.keys, np.int64)
        chosen = np.flatnonzero((ids != 0)[coded.codes]) if ids.any() else np.zeros(0, np.int64)
        rows, domain = rows[chosen], ids[coded.codes[chosen]]
        process = self._events.table(rows, "globalTid").ints("globalTid").values & PROCESS_MASK
        groups = factorize_rows(process, domain)
        keys = zip(process[groups.first], domain[groups.first], strict=True)
        names = [self._events.domains.get((int(p), int(d)), _DOMAIN) for p, d in keys]
        is_nccl = np.array([name == _DOMAIN for name in names], np.bool_)
        rows = rows[is_nccl[groups.codes]] if len(rows) else rows
        spec = TABLES["range"].column("name_id")
        candidates = SourceTable(self._reading.export, EVENTS, rows)
        return event_name().load(self._reading, candidates, spec).values, rows

    @cached_property
    def _values(self) -> Mapping[str, Values]:
        """Columns of Python values."""
        payloads = self._payloads.pairs_of(self._rows)
        table = self._events.table(self._rows, "globalTid", "start")
        processes = (table.ints("globalTid").values & PROCESS_MASK).tolist()
        return values_of(processes, table.ints("start").values.tolist(), payloads, self._ranks)

    @cached_property
    def _ranks(self) -> Ranks:
        """Rank and rank count of each (globalPid, communicator)."""
        rows = self._named(INIT)
        keys = self._events.table(rows, "globalTid").ints("globalTid").values & PROCESS_MASK
        return ranks_of(keys.tolist(), self._payloads.pairs_of(rows))


_FIELDS: Mapping[str, Field] = {
    "start_ns": required("start"),
    "process_id": process(),
    "thread_id": thread(),
    "operation_id": event_name(),
}
