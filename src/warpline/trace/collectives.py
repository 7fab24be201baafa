"""Collectives, derived from the NVTX ranges and payloads that NCCL writes for its own calls.

All readers of NVTX ranges share these rules. `RangeCollectives` applies them to any source with the
tables range and range_payload.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from warpline.lazy import lazy_pattern
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column, null_column
from warpline.trace.source import TableSource

DOMAIN = "NCCL"
OPERATION = lazy_pattern(
    r"p?nccl(AllReduce|AllGatherV?|All[Tt]oAllv?|ReduceScatter|Reduce|Broadcast|Bcast"
    r"|Gather|Scatter|Send|Recv)"
)
INIT = lazy_pattern(r"p?ncclComm(Init|Split)\w*")

# Keys of NCCL's payloads.
COMMUNICATOR_KEY = "NCCL communicator ID"
_RANK, _RANK_COUNT = "Rank", "No. of ranks"
_NUMBERS = {"bytes": ("Message size [bytes]", "Bytes"), "peer": ("Peer rank", "Root", "Peer")}
_TEXTS = {"reduction_id": ("Reduction operation",), "dtype_id": ("Data type",)}

Value = int | float | str
Values = list[int | str | None]
Payload = Mapping[str, Value]
Ranks = Mapping[Hashable, tuple[int | None, int | None]]
I64 = npt.NDArray[np.int64]


def ranks_of(processes: Sequence[int], payloads: Sequence[Payload]) -> Ranks:
    """Return rank and rank count of each (process, communicator) that was created.

    The rank is None if the process has several ranks in that communicator.

    Args:
        processes: The process of each creation.
        payloads: The payload of each creation.
    """
    ranks: dict[Hashable, tuple[int | None, int | None]] = {}
    for process, payload in zip(processes, payloads, strict=True):
        rank, count = _size(payload, [_RANK]), _size(payload, [_RANK_COUNT])
        owner = (process, _number(payload, COMMUNICATOR_KEY))
        if rank is not None and count is not None:
            is_same = ranks.get(owner, (rank, count))[0] == rank
            ranks[owner] = (rank if is_same else None, count)
    return ranks


def values_of(
    processes: Sequence[int], start_ns: Sequence[int], payloads: Sequence[Payload], ranks: Ranks
) -> dict[str, Values]:
    """Return the columns of the table collective that come from payloads, with texts as str."""
    communicators = [_number(payload, COMMUNICATOR_KEY) for payload in payloads]
    owners = list(zip(processes, communicators, strict=True))
    places = [ranks.get(owner, (None, None)) for owner in owners]
    return {
        "communicator_id": [_as_hex(value) for value in communicators],
        "rank": [rank for rank, _ in places],
        "rank_count": [count for _, count in places],
        "sequence": _sequence(owners, start_ns),
        **{name: [_size(p, keys) for p in payloads] for name, keys in _NUMBERS.items()},
        **{name: [_text(p, keys) for p in payloads] for name, keys in _TEXTS.items()},
    }


class RangeCollectives:
    """The table collective of a source with NCCL ranges and payloads, in file order.

    Args:
        source: A source with the table range. Without range_payload, most columns are null.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table collective."""
        return {name: self._column(name) for name in columns}

    def _column(self, name: str) -> ColumnData:
        spec = TABLES["collective"].column(name)
        if name == "range_id":
            return make_column(spec, self._rows)
        source = "name_id" if name == "operation_id" else name
        if source in {"start_ns", "end_ns", "process_id", "thread_id", "name_id"}:
            if not len(self):  # without names of ranges, there may be no such column
                return null_column(spec, 0)
            return make_column(spec, self._ranges[source].values[self._rows])
        if name not in self._values:  # only other formats provide it
            return null_column(spec, len(self))
        intern = self._source.strings.intern_text
        values = self._values[name]
        stored = [intern(value) if isinstance(value, str) else value or 0 for value in values]
        return make_column(spec, stored, np.array([v is not None for v in values], np.bool_))

    @cached_property
    def _ranges(self) -> Mapping[str, ColumnData]:
        names = ("start_ns", "end_ns", "process_id", "thread_id", "name_id")
        return self._source.load("range", names)

    @cached_property
    def _rows(self) -> I64:
        """Rows of range that are collectives, ascending."""
        return self._named(OPERATION)

    def _named(self, pattern: re.Pattern[str]) -> I64:
        rows = self._candidates
        if not len(rows):
            return rows
        names = self._ranges["name_id"]
        rows = rows[names.is_valid()[rows]]
        distinct, codes = np.unique(names.values[rows], return_inverse=True)
        texts = self._source.strings.texts(distinct)
        is_match = np.array([bool(pattern.fullmatch(text)) for text in texts], np.bool_)
        return rows[is_match[codes]] if len(rows) else rows

    @cached_property
    def _candidates(self) -> I64:
        """Rows of range in NCCL's domain. Names are not loaded if there is no such domain."""
        domain = self._source.load("range", ["domain_id"]).get("domain_id")
        number = None if domain is None else self._source.strings.find(DOMAIN)
        if domain is None or number is None or "name_id" not in self._ranges:
            return np.zeros(0, np.int64)
        return np.flatnonzero(domain.is_valid() & (domain.values == number))

    @cached_property
    def _values(self) -> Mapping[str, Values]:
        inits = self._named(INIT)
        payloads = self._payloads(np.concatenate([inits, self._rows]))
        processes = self._ranges["process_id"].values
        ranks = ranks_of(processes[inits].tolist(), payloads[: len(inits)])
        start_ns = self._ranges["start_ns"].values[self._rows].tolist()
        called = processes[self._rows].tolist()
        return values_of(called, start_ns, payloads[len(inits) :], ranks)

    def _payloads(self, rows: I64) -> list[dict[str, Value]]:
        """Return the payloads of some rows of range; {} for a row without one."""
        payloads: dict[int, dict[str, Value]] = {row: {} for row in rows.tolist()}
        if "range_payload" in self._source.tables():
            names = ("range_id", "key_id", "int_value", "float_value", "text_id")
            columns = self._source.load("range_payload", names)
            owners = columns.get("range_id")
            if owners is not None:
                chosen = np.flatnonzero(owners.is_valid() & np.isin(owners.values, rows))
                for place in chosen.tolist():
                    self._add(payloads[int(owners.values[place])], columns, place)
        return [payloads[row] for row in rows.tolist()]

    def _add(
        self, payload: dict[str, Value], columns: Mapping[str, ColumnData], place: int
    ) -> None:
        key = self._source.strings.text(int(columns["key_id"].values[place]))
        for name in ("int_value", "float_value", "text_id"):
            data = columns.get(name)
            if data is not None and data.is_valid()[place]:
                value = data.values[place].item()
                payload[key] = self._source.strings.text(value) if name == "text_id" else value


def _text(payload: Payload, keys: Sequence[str]) -> str | None:
    """Return the value of the first key that exists."""
    value = next((payload[key] for key in keys if key in payload), None)
    return None if value is None else str(value)


def _number(payload: Payload, *keys: str) -> int | None:
    """Return the value of the first key that exists, an integer or the text of one."""
    value = next((payload[key] for key in keys if key in payload), None)
    if isinstance(value, str):
        digits = value.replace(",", "")  # JSON payloads may hold "1,048,576"
        value = int(digits) if re.fullmatch(r"-?[0-9]{1,20}", digits) else None
    return value if isinstance(value, int) else None


def _size(payload: Payload, keys: Sequence[str]) -> int | None:
    value = _number(payload, *keys)
    return value if value is not None and abs(value) < 2**63 else None


def _as_hex(value: int | None) -> str | None:
    return None if value is None else f"{value & 0xFFFF_FFFF_FFFF_FFFF:#018x}"


def _sequence(owners: Sequence[Hashable], start_ns: Sequence[int]) -> Values:
    """Return the index of each call among the calls of its owner, in order of time."""
    seen: dict[Hashable, int] = {}
    index: Values = [0] * len(owners)
    for number in sorted(range(len(owners)), key=start_ns.__getitem__):
        index[number] = seen.get(owners[number], 0)
        seen[owners[number]] = seen.get(owners[number], 0) + 1
    return index
