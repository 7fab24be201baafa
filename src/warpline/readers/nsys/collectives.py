"""Collective operations, from the ranges and payloads that NCCL writes about its own calls."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.binary import Value
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import Field, Reading, process, required, thread
from warpline.readers.nsys.identity import PROCESS_MASK
from warpline.readers.nsys.payload import COMMUNICATOR_KEY, Payloads
from warpline.readers.nsys.ranges import EVENTS, NvtxEvents, event_name
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column

_DOMAIN = b"NCCL"
_OPERATION = re.compile(
    r"p?nccl(AllReduce|AllGatherV?|All[Tt]oAllv?|ReduceScatter|Reduce|Broadcast|Bcast"
    r"|Gather|Scatter|Send|Recv)"
)
_INIT = re.compile(r"p?ncclComm(Init|Split)\w*")

# Keys of NCCL's payloads.
_RANK, _RANK_COUNT = "Rank", "No. of ranks"
_NUMBERS = {"bytes": ("Message size [bytes]", "Bytes"), "peer": ("Peer rank", "Root", "Peer")}
_TEXTS = {"reduction_id": ("Reduction operation",), "dtype_id": ("Data type",)}

Values = list[int | str | None]


class Collectives:
    """The table collective.

    A range is one if it is named like a function of NCCL that moves data and lies in the domain
    "NCCL", or in a domain whose creation was not recorded. Sizes and communicators are known
    only if the export holds payloads; rank and rank count, if the recording saw the creation
    of the communicator in the same process.
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
            return make_column(spec, self._events.range_ends[0][places])
        if name in _FIELDS:
            table = SourceTable(self._reading.export, EVENTS, self._rows)
            return _FIELDS[name].load(self._reading, table, spec)
        values = self._values[name]
        intern = self._reading.names.pool.intern_text
        found = [intern(value) if isinstance(value, str) else value or 0 for value in values]
        return make_column(spec, found, np.array([v is not None for v in values], np.bool_))

    @cached_property
    def _rows(self) -> I64:
        """Rows of NVTX_EVENTS that are collective operations, ascending."""
        return self._named(_OPERATION)

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
        table = self._events.table(rows, "domainId", "globalTid")
        domain = table.ints("domainId").filled(0)
        process = table.ints("globalTid").values & PROCESS_MASK
        chosen = np.flatnonzero(domain)
        groups = factorize_rows(process[chosen], domain[chosen])
        keys = zip(process[chosen[groups.first]], domain[chosen[groups.first]], strict=True)
        names = [self._events.domains.get((int(p), int(d)), _DOMAIN) for p, d in keys]
        is_nccl = np.array([name == _DOMAIN for name in names], np.bool_)
        rows = rows[chosen[is_nccl[groups.codes]]] if len(chosen) else rows[:0]
        spec = TABLES["range"].column("name_id")
        found = SourceTable(self._reading.export, EVENTS, rows)
        return event_name().load(self._reading, found, spec).values, rows

    @cached_property
    def _values(self) -> Mapping[str, Values]:
        """Columns of Python values."""
        payloads = self._payloads.pairs_of(self._rows)
        table = self._events.table(self._rows, "globalTid", "start")
        processes = (table.ints("globalTid").values & PROCESS_MASK).tolist()
        communicators = [_number(payload, COMMUNICATOR_KEY) for payload in payloads]
        owners = list(zip(processes, communicators, strict=True))
        ranks = [self._ranks.get(owner, (None, None)) for owner in owners]
        return {
            "communicator_id": [_as_hex(value) for value in communicators],
            "rank": [rank for rank, _ in ranks],
            "rank_count": [count for _, count in ranks],
            "sequence": _sequence(owners, table.ints("start").values.tolist()),
            **{name: [_size(p, keys) for p in payloads] for name, keys in _NUMBERS.items()},
            **{name: [_text(p, keys) for p in payloads] for name, keys in _TEXTS.items()},
        }

    @cached_property
    def _ranks(self) -> dict[tuple[int, int | None], tuple[int | None, int | None]]:
        """Rank and rank count of each (globalPid, communicator); a rank only if there is one."""
        rows = self._named(_INIT)
        keys = self._events.table(rows, "globalTid").ints("globalTid").values & PROCESS_MASK
        found: dict[tuple[int, int | None], tuple[int | None, int | None]] = {}
        for key, payload in zip(keys.tolist(), self._payloads.pairs_of(rows), strict=True):
            rank, count = _size(payload, [_RANK]), _size(payload, [_RANK_COUNT])
            owner = (key, _number(payload, COMMUNICATOR_KEY))
            if rank is not None and count is not None:
                is_same = found.get(owner, (rank, count))[0] == rank
                found[owner] = (rank if is_same else None, count)
        return found


_FIELDS: Mapping[str, Field] = {
    "start_ns": required("start"),
    "process_id": process(),
    "thread_id": thread(),
    "operation_id": event_name(),
}


def _text(payload: Mapping[str, Value], keys: Sequence[str]) -> str | None:
    """Return the value of the first key that is there."""
    value = next((payload[key] for key in keys if key in payload), None)
    return None if value is None else str(value)


def _number(payload: Mapping[str, Value], *keys: str) -> int | None:
    """Return the value of the first key that is there, an integer or the text of one."""
    value = next((payload[key] for key in keys if key in payload), None)
    if isinstance(value, str):
        digits = value.replace(",", "")  # JSON payloads may hold "1,048,576"
        value = int(digits) if re.fullmatch(r"-?[0-9]{1,20}", digits) else None
    return value if isinstance(value, int) else None


def _size(payload: Mapping[str, Value], keys: Sequence[str]) -> int | None:
    value = _number(payload, *keys)
    return value if value is not None and abs(value) < 2**63 else None


def _as_hex(value: int | None) -> str | None:
    return None if value is None else f"{value & 0xFFFF_FFFF_FFFF_FFFF:#018x}"


def _sequence(owners: Sequence[Hashable], start_ns: Sequence[int]) -> Values:
    """Return the place of each call among those of its owner, in order of time."""
    seen: dict[Hashable, int] = {}
    found: Values = [0] * len(owners)
    for number in sorted(range(len(owners)), key=start_ns.__getitem__):
        found[number] = seen.get(owners[number], 0)
        seen[owners[number]] = seen.get(owners[number], 0) + 1
    return found
