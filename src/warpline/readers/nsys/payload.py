"""Payloads that a program attached to its ranges and marks, as key-value pairs.

In NVTX_EVENTS, a plain number is in one of six columns, text that the exporter decoded in
`jsonText` (or an id of it), and bytes laid out by NVTX_PAYLOAD_SCHEMAS in `binaryData`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from warpline.lazy import lazy
from warpline.ops.arrays import F64, I32, I64, BoolArray
from warpline.ops.group import factorize, factorize_rows
from warpline.ops.text import factorize_texts
from warpline.readers.nsys.binary import NO_KEY, Decoder, Pair, Value
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.names import Names
from warpline.readers.nsys.ranges import EVENTS, RANGES, Event, NvtxEvents
from warpline.schema import TABLES
from warpline.trace.collectives import COMMUNICATOR_KEY
from warpline.trace.column import ColumnData, make_column

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")

JSON_KEY = "json"

_INT_COLUMNS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
_REAL_COLUMNS = ("doubleValue", "floatValue")
_OWNERS = (*RANGES, Event.MARK)
_INT, _REAL, _TEXT = 0, 1, 2
_KIND_OF = {int: _INT, float: _REAL, str: _TEXT}


def parse_json(content: bytes) -> list[Pair]:
    """Return the pairs of a flat JSON object. Anything else becomes one text.

    A one-pair object instead of a value counts as its value: some versions of nsys wrap
    values in their type.
    """
    text = content.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return [(JSON_KEY, text)]
    if not isinstance(parsed, dict):
        return [(JSON_KEY, text)]
    pairs = {key: _unwrapped(value) for key, value in parsed.items()}
    if any(isinstance(value, dict | list) for value in pairs.values()):
        return [(JSON_KEY, text)]
    return [(key, _scalar(value)) for key, value in pairs.items()]


def _unwrapped(value: object) -> object:
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value


def _scalar(value: object) -> Value:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**64):
        return value
    return str(value)


class Structured(NamedTuple):
    """Events with several values each.

    Attributes:
        rows: Shape (n,), rows of NVTX_EVENTS.
        codes: Shape (n,), the index in `lists` of each.
        lists: Distinct lists of pairs.
    """

    rows: I64
    codes: I32
    lists: Sequence[Sequence[Pair]]


class Values(NamedTuple):
    """Values, one per row of range_payload. In each row, one of the three is valid.

    Attributes:
        keys, texts: Rows of the string pool.
        ints, reals: The numbers.
        kinds: 0 for an integer, 1 for a real number, 2 for a text.
    """

    keys: I32
    ints: I64
    reals: F64
    texts: I32
    kinds: I32

    def take(self, rows: I64) -> Values:
        """Return the chosen values."""
        keys, ints, reals, texts, kinds = self
        return Values(keys[rows], ints[rows], reals[rows], texts[rows], kinds[rows])


class Payloads:
    """The table range_payload.

    Args:
        export: The export.
        events: Which of its rows are ranges and marks.
        names: Where texts become rows of the string pool.
    """

    def __init__(self, export: Export, events: NvtxEvents, names: Names) -> None:
        self._export = export
        self._events = events
        self._names = names
        self._decoder = Decoder(export)

    @property
    def are_left_out(self) -> bool:
        """Whether NCCL described its payloads but the export holds none, nsys's default."""
        entries = (entry.name for schema in self._decoder.schemas.values() for entry in schema)
        if COMMUNICATOR_KEY not in entries:
            return False
        table = SourceTable(self._export, EVENTS)
        return not any(
            table.texts(column, Kind.BLOB).offsets[-1] for column in ("jsonText", "binaryData")
        ) and not bool(table.ints("jsonTextId").is_valid().any())

    def __len__(self) -> int:
        return len(self._table[0])

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of the table range_payload."""
        spec = TABLES["range_payload"]
        rows, values = self._table
        is_kind = [values.kinds == kind for kind in range(3)]
        made: dict[str, Callable[[], tuple[npt.ArrayLike, BoolArray | None]]] = {
            "range_id": lambda: _places(self._events.range_rows, rows),
            "mark_id": lambda: _places(self._events.mark_rows, rows),
            "key_id": lambda: (values.keys, None),
            "int_value": lambda: (values.ints, is_kind[_INT]),
            "float_value": lambda: (values.reals, is_kind[_REAL]),
            "text_id": lambda: (values.texts, is_kind[_TEXT]),
        }
        return {name: make_column(spec.column(name), *made[name]()) for name in columns}

    def pairs_of(self, rows: I64) -> list[dict[str, Value]]:
        """Return the structured values of some rows of NVTX_EVENTS, {} where there are none."""
        pairs: list[dict[str, Value]] = [{} for _ in rows]
        order = np.argsort(rows)
        for part in self.structured:
            place, known = _places(rows[order], part.rows)
            chosen = zip(order[place[known]].tolist(), part.codes[known].tolist(), strict=True)
            for number, code in chosen:
                pairs[number].update(part.lists[code])
        return pairs

    @cached_property
    def structured(self) -> list[Structured]:
        """Every event of the file with JSON or a binary payload."""
        table = SourceTable(self._export, EVENTS)
        texts = {"jsonText": Kind.BLOB, "binaryData": Kind.BLOB}
        table.fetch({**texts, "jsonTextId": Kind.INT64})
        parse: dict[str, Callable[[bytes, int], Sequence[Pair]]] = {
            "jsonText": lambda content, _: parse_json(content),
            "binaryData": self._decoder.decode,
        }
        parts = []
        for column, decode in parse.items():
            raw = table.texts(column, Kind.BLOB)
            codes = factorize_texts(raw.blob, raw.offsets, raw.valid).codes
            rows = np.flatnonzero(codes >= 0)
            if not len(rows):  # the domains are not read for nothing
                continue
            domains = table.ints("domainId").filled(0)
            groups = factorize_rows(codes[rows], domains[rows])
            lists = [
                decode(raw.blob[raw.offsets[row] : raw.offsets[row + 1]].tobytes(), domain)
                for row in rows[groups.first].tolist()
                for domain in (int(domains[row]),)
            ]
            parts.append(Structured(rows, groups.codes, lists))
        parts.append(self._json_by_id(table))
        return parts

    def _json_by_id(self, table: SourceTable) -> Structured:
        ids = table.ints("jsonTextId")
        rows = np.flatnonzero(ids.is_valid())
        groups = factorize(ids.values[rows])
        texts = (self._names.text_of_id(key) for key in groups.uniques.tolist())
        return Structured(rows, groups.codes, [parse_json(text.encode()) for text in texts])

    @cached_property
    def _table(self) -> tuple[I64, Values]:
        """Row of NVTX_EVENTS of each value, ascending, and the values."""
        parts = [*self._plain(), *(self._expanded(part) for part in self.structured)]
        rows = np.concatenate([rows for rows, _ in parts])
        owned = np.isin(self._events.types_of(rows), _OWNERS)
        order = np.flatnonzero(owned)[np.argsort(rows[owned], kind="stable")]
        columns = (np.concatenate(column) for column in zip(*(v for _, v in parts), strict=True))
        return rows[order], Values(*columns).take(order)

    def _plain(self) -> list[tuple[I64, Values]]:
        """Return the values stored in a column of numbers."""
        table = SourceTable(self._export, EVENTS)
        reals = dict.fromkeys(_REAL_COLUMNS, Kind.FLOAT64)
        table.fetch({**dict.fromkeys(_INT_COLUMNS, Kind.INT64), **reals})
        key = self._names.pool.intern_text(NO_KEY)
        parts = []
        for column in _INT_COLUMNS:
            numbers = table.ints(column)
            rows = np.flatnonzero(numbers.is_valid())
            parts.append((rows, _values(key, rows, ints=numbers.values[rows])))
        for column in _REAL_COLUMNS:
            values, valid = table.floats(column)
            rows = np.flatnonzero(valid)
            parts.append((rows, _values(key, rows, reals=values[rows])))
        return parts

    def _expanded(self, part: Structured) -> tuple[I64, Values]:
        """Return the row and the value of every pair of structured events."""
        lengths = np.array([len(pairs) for pairs in part.lists], np.int64)
        starts = np.cumsum(lengths) - lengths
        counts = lengths[part.codes] if len(lengths) else np.zeros(0, np.int64)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        within = np.arange(int(counts.sum())) - firsts
        places = np.repeat(starts[part.codes], counts) + within if len(lengths) else within
        return np.repeat(part.rows, counts), self._flat(part.lists).take(places)

    def _flat(self, lists: Sequence[Sequence[Pair]]) -> Values:
        pairs = [pair for items in lists for pair in items]
        intern = self._names.pool.intern_text
        kinds = [_KIND_OF[type(value)] for _, value in pairs]
        return Values(
            keys=np.array([intern(key) for key, _ in pairs], np.int32),
            ints=np.array([_wrapped(v) if isinstance(v, int) else 0 for _, v in pairs], np.int64),
            reals=np.array([v if isinstance(v, float) else 0.0 for _, v in pairs], np.float64),
            texts=np.array([intern(v) if isinstance(v, str) else 0 for _, v in pairs], np.int32),
            kinds=np.array(kinds, np.int32),
        )


def _values(key: int, rows: I64, ints: I64 | None = None, reals: F64 | None = None) -> Values:
    count = len(rows)
    return Values(
        np.full(count, key, np.int32),
        np.zeros(count, np.int64) if ints is None else ints,
        np.zeros(count, np.float64) if reals is None else reals,
        np.zeros(count, np.int32),
        np.full(count, _REAL if ints is None else _INT, np.int32),
    )


def _wrapped(value: int) -> int:
    """Return an unsigned 64-bit number as the signed one with the same bits."""
    return value - 2**64 if value >= 2**63 else value


def _places(owners: I64, rows: I64) -> tuple[I64, BoolArray]:
    """Return the position of each row among its owners, and whether it is one of them."""
    if not len(owners):
        return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    place = np.minimum(np.searchsorted(owners, rows), len(owners) - 1)
    return place, owners[place] == rows
