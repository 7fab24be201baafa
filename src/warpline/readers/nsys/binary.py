"""Binary NVTX payloads, decoded by the schemas that the program registered.

`binaryData` is a little-endian 64-bit number of payloads, then the schema id, size and offset in
`binaryData` of each, then the payloads. The domain is that of the event. Types, flags and their
numbers are those of the public header nvToolsExtPayload.h on 64-bit Linux.

In the tables a NULL number means 0. Bytes that cannot be decoded are kept as hexadecimal text.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from warpline.frozen import frozen
from warpline.lazy import lazy
from warpline.readers.nsys.export import Export, SourceTable

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")

Value = int | float | str
Pair = tuple[str, Value]

NO_KEY = "payload"

_COUNT = struct.Struct("<Q")
_PART = struct.Struct("<QQQ")  # schema id, size, offset
_FORMATS: Mapping[int, str] = {
    **dict(enumerate("bBhHiIqQqQbBhHiIqQfd", start=1)),
    22: "Q",  # size_t
    23: "Q",  # an address
    **dict(enumerate("IBHI", start=24)),  # wide, 8-, 16- and 32-bit characters
    32: "B",
    42: "e",
    43: "f",
    44: "d",
    80: "Q",  # handle of a registered string
    90: "I",  # category
    91: "i",  # kind of color
    92: "I",  # color
    **dict.fromkeys(range(128, 256), "Q"),  # times of many clocks
}
_TEXTS: Mapping[int, tuple[str, int]] = {  # encoding, bytes of a unit
    75: ("utf-8", 1),
    76: ("utf-8", 1),
    77: ("utf-16-le", 2),
    78: ("utf-32-le", 4),
}
_ENUM_FORMATS = {1: "b", 2: "h", 4: "i", 8: "q"}
_ENUM_BYTES = 4
_ELSEWHERE = 0b1110  # flags: the entry holds a pointer or an offset
_TERMINATED, _COUNTED = 2, 3  # kinds of array besides the fixed one, in bits 4 and 5 of the flags
_STRUCTURES = (0, 1, 2)  # schema types of unknown, fixed and variable size; the others are unions
_MAX_DEPTH = 8
# Entries and bytes of hexadecimal text of one payload: far more than any whose entries do not
# overlap. Schemas that contain themselves several times would take forever.
_MOST_PER_BYTE, _MOST_BESIDE = 16, 1024


def parts_of(content: bytes) -> list[tuple[int, bytes]]:
    """Return the schema id and the bytes of each payload; none if their offsets are invalid."""
    if len(content) < _COUNT.size:
        return []
    (count,) = _COUNT.unpack_from(content)
    head = _COUNT.size + count * _PART.size
    if head > len(content):
        return []
    places = list(_PART.iter_unpack(content[_COUNT.size : head]))
    if any(offset < head or offset + size > len(content) for _, size, offset in places):
        return []
    return [(schema, content[offset : offset + size]) for schema, size, offset in places]


@frozen
class Entry:
    """One entry of a schema; see nvtxPayloadSchemaEntry_t."""

    name: str
    type: int
    flags: int
    detail: int
    offset: int | None


@frozen
class Enumeration:
    """Names of numbers, and the bytes of one."""

    names: Mapping[int, str]
    size: int


class _UndecodableError(Exception):
    """The bytes do not have the layout that their schema declares."""


class _EndlessError(Exception):
    """The schema yields far more entries than its payload has bytes."""


class Decoder:
    """Decodes payloads with the schemas of one export.

    Schemas are identified by domain and id only: the export does not record their process.
    """

    def __init__(self, export: Export) -> None:
        self._export = export

    def decode(self, content: bytes, domain: int) -> list[Pair]:
        """Return the pairs of one `binaryData` of an event of a domain."""
        parts = parts_of(content)
        if not parts or any((domain, schema) not in self.schemas for schema, _ in parts):
            return [(NO_KEY, content.hex())]
        try:
            return [
                pair
                for schema, payload in parts
                for pair in _Layout(self, domain, payload).structure(schema, 0, "", 0)[0]
            ]
        except _EndlessError:
            return [(NO_KEY, content.hex())]

    @cached_property
    def schemas(self) -> dict[tuple[int, int], list[Entry]]:
        """Entries of each (domain id, schema id), without unions."""
        table = self._facts("NVTX_PAYLOAD_SCHEMAS", "type")
        kinds = (kind or 0 for kind in table.numbers("type"))
        schemas: dict[tuple[int, int], list[Entry]] = {
            key: [] for key, kind in zip(_keys(table), kinds, strict=True) if kind in _STRUCTURES
        }
        columns = ("idx", "type", "flags", "arrayOrUnionDetail", "offset")
        entries = self._facts("NVTX_PAYLOAD_SCHEMA_ENTRIES", *columns, text="name")
        numbers = zip(*(entries.numbers(column) for column in columns), strict=True)
        rows = zip(_keys(entries), numbers, entries.strings("name"), strict=True)
        for key, (idx, kind, flags, detail, offset), name in sorted(rows, key=_by_index):
            if key in schemas and idx == len(schemas[key]):  # a repeated declaration adds nothing
                entry = Entry(name or str(idx), kind or 0, flags or 0, detail or 0, offset)
                schemas[key].append(entry)
        return schemas

    @cached_property
    def enumerations(self) -> dict[tuple[int, int], Enumeration]:
        """Enumeration of each (domain id, schema id)."""
        entries = self._facts("NVTX_PAYLOAD_ENUM_ENTRIES", "value", text="name")
        names: dict[tuple[int, int], dict[int, str]] = {}
        rows = zip(_keys(entries), entries.numbers("value"), entries.strings("name"), strict=True)
        for key, value, name in rows:
            names.setdefault(key, {})[value or 0] = name or ""
        sizes = self._facts("NVTX_PAYLOAD_ENUMS", "size")
        size_of = dict(zip(_keys(sizes), sizes.numbers("size"), strict=True))
        return {
            key: Enumeration(values, size_of.get(key) or _ENUM_BYTES)
            for key, values in names.items()
        }

    def _facts(self, table: str, *columns: str, text: str | None = None) -> SourceTable:
        ints = ("domainId", "schemaId", *columns)
        return SourceTable.facts(self._export, table, ints, [text] if text else [])


def _keys(table: SourceTable) -> list[tuple[int, int]]:
    columns = (table.ints(name).values.tolist() for name in ("domainId", "schemaId"))
    return list(zip(*columns, strict=True))


def _by_index(row: tuple[tuple[int, int], tuple[int | None, ...], str | None]) -> tuple[Any, ...]:
    return row[0], row[1][0] or 0


class _Layout:
    """One payload, being decoded."""

    def __init__(self, decoder: Decoder, domain: int, payload: bytes) -> None:
        self._decoder = decoder
        self._domain = domain
        self._payload = payload
        self._left = _MOST_PER_BYTE * len(payload) + _MOST_BESIDE

    def structure(self, schema: int, start: int, prefix: str, depth: int) -> tuple[list[Pair], int]:
        """Return the pairs of a structure and where it ends.

        From the first entry that does not fit, the rest becomes one hexadecimal text.
        """
        pairs: list[Pair] = []
        values: list[Value] = []
        position = start
        for entry in self._decoder.schemas[self._domain, schema]:
            name = prefix + entry.name
            at = self._place(entry, start, position)
            try:
                decoded, position = self._entry(entry, at, name, values, depth)
            except (_UndecodableError, struct.error):
                rest = self._payload[max(at, 0) :]
                self._spend(len(rest))
                return [*pairs, (name, rest.hex())], len(self._payload)
            pairs += decoded
            values.append(decoded[0][1] if decoded else 0)
        return pairs, position

    def _place(self, entry: Entry, start: int, position: int) -> int:
        """Return where an entry begins: as declared, or after the last one, aligned as in C."""
        if entry.offset is not None:
            return start + entry.offset
        form = _FORMATS.get(entry.type)
        named = self._decoder.enumerations.get((self._domain, entry.type))
        size = struct.calcsize(form) if form else named.size if named else 1
        return position + -position % size

    def _entry(
        self, entry: Entry, at: int, name: str, values: Sequence[Value], depth: int
    ) -> tuple[list[Pair], int]:
        self._spend(1)
        shape = (entry.flags >> 4) & 3
        if entry.flags & _ELSEWHERE or not 0 <= at <= len(self._payload) or depth > _MAX_DEPTH:
            raise _UndecodableError
        if entry.type in _TEXTS:
            text, end = self._text(entry, at, shape, values)
            return [(name, text)], end
        if not shape:
            return self._scalar(entry, at, name, depth)
        count = entry.detail
        if shape == _COUNTED:
            count = _count(values, entry.detail)
        return self._array(entry, at, name, None if shape == _TERMINATED else count, depth)

    def _scalar(self, entry: Entry, at: int, name: str, depth: int) -> tuple[list[Pair], int]:
        form = _FORMATS.get(entry.type)
        key = (self._domain, entry.type)
        if form is not None:
            return [(name, self._unpack(form, at))], at + struct.calcsize(form)
        if key in self._decoder.enumerations:
            named = self._decoder.enumerations[key]
            number = self._unpack(_ENUM_FORMATS.get(named.size, ""), at)
            return [(name, named.names.get(int(number), number))], at + named.size
        if key in self._decoder.schemas:
            return self.structure(entry.type, at, f"{name}.", depth + 1)
        raise _UndecodableError

    def _array(
        self, entry: Entry, at: int, name: str, count: int | None, depth: int
    ) -> tuple[list[Pair], int]:
        """Return an array as JSON, of `count` elements or up to a zero."""
        elements: list[Value | dict[str, Value]] = []
        while count is None or len(elements) < count:
            self._spend(1)
            pairs, end = self._scalar(entry, at, "", depth)
            if end <= at or not pairs:
                raise _UndecodableError  # it would never end
            at = end
            if count is None and pairs[0][1] == 0:
                break
            is_plain = len(pairs) == 1 and not pairs[0][0]
            elements.append(pairs[0][1] if is_plain else {k[1:]: v for k, v in pairs})
        return [(name, json.dumps(elements))], at

    def _text(self, entry: Entry, at: int, shape: int, values: Sequence[Value]) -> tuple[str, int]:
        encoding, unit = _TEXTS[entry.type]
        count = _count(values, entry.detail) if shape == _COUNTED else entry.detail
        end = at + count * unit if count else len(self._payload)
        if end > len(self._payload):
            raise _UndecodableError
        raw = self._payload[at:end]
        stop = next((i for i in range(0, len(raw), unit) if not any(raw[i : i + unit])), len(raw))
        if not count:
            end = min(at + stop + unit, len(self._payload))
        return raw[:stop].decode(encoding, "replace"), end

    def _spend(self, much: int) -> None:
        self._left -= much
        if self._left < 0:
            raise _EndlessError

    def _unpack(self, form: str, at: int) -> int | float:
        if not form:
            raise _UndecodableError
        value: int | float = struct.unpack_from(f"<{form}", self._payload, at)[0]
        return value


def _count(values: Sequence[Value], place: int) -> int:
    """Return the number of elements that an earlier entry gives."""
    count = values[place] if place < len(values) else None
    if not isinstance(count, int) or count < 0:
        raise _UndecodableError
    return count
