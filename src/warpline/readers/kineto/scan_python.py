"""The scan of a Chrome trace in pure Python, for installations without the native core."""

from __future__ import annotations

import json
import re
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np

from warpline.errors import CorruptTraceError, InputError
from warpline.readers.kineto.chunks import chunks
from warpline.readers.kineto.scan import (
    BOOL,
    INT,
    JSON,
    LARGE,
    NO_TEXT,
    NULL,
    REAL,
    TEXT,
    Argument,
    Scan,
)

MAX_DEPTH = 512  # nesting depth of arrays and objects in a value; deeper ones are skipped
MAX_TEXT_BYTES = 1 << 20  # longer texts are truncated
_MAX_TOP_CHARACTERS = 1 << 22
_MAX_TOP_MEMBERS = 1 << 10
_MAX_BYTES = 1 << 30
_BITS, _REAL = struct.Struct("<q"), struct.Struct("<d")
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_US = 1 << 62

_SPACE = re.compile(r"[ \t\n\r]*")
_SIMPLE_US = re.compile(r"(-?)([0-9]{1,17})(?:\.([0-9]{1,3}))?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)


class _Literal(str):
    """A number that is not a plain integer, as written in the file."""

    __slots__ = ()


class _Columns:
    """The columns of a scan while it grows."""

    def __init__(self, wanted: frozenset[str] | None) -> None:
        self.wanted = wanted
        self.number: dict[str, int] = {}
        self.phase = bytearray()
        self.ints = {name: array("i") for name in ("name", "cat", "pid", "tid", "id")}
        self.times = {name: array("q") for name in ("ts", "dur")}
        self.has_time = {name: bytearray() for name in ("ts", "dur")}
        self.args: dict[str, tuple[array[int], bytearray, array[int]]] = {}
        self.counts: dict[str, int] = {}

    def text(self, text: str) -> int:
        """Return the number of a text."""
        number = self.number.get(text)
        if number is None:
            clean = _LONE_SURROGATE.sub("\ufffd", text)
            if len(clean) > MAX_TEXT_BYTES >> 2 and len(clean.encode()) > MAX_TEXT_BYTES:
                clean = clean.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
                self.count("text cut")
            number = self.number.setdefault(clean, len(self.number))
        return number

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def add(self, event: dict[str, Any]) -> None:
        """Append one event."""
        phase = event.get("ph")
        code = ord(phase[0]) if _is_text(phase) and phase else 0
        self.phase.append(code if code < 128 else 0)
        for name, column in self.ints.items():
            column.append(self._short(event.get(name)))
        for name in self.times:
            self._add_time(name, event.get(name))
        args = event.get("args")
        if isinstance(args, dict):
            row = len(self.phase) - 1
            for key, value in args.items():
                if self.wanted is None or key in self.wanted:
                    self._add_arg(row, key, value)

    def _short(self, value: Any) -> int:
        if isinstance(value, str):
            return self.text(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return self.text(str(value)) if is_number else NO_TEXT

    def _add_time(self, name: str, value: Any) -> None:
        time_ns = None if value is None else to_ns(value)
        if time_ns is None and value is not None:
            self.count(f"bad {name}")
        self.times[name].append(time_ns or 0)
        self.has_time[name].append(time_ns is not None)

    def _add_arg(self, row: int, key: str, value: Any) -> None:
        found = self.args.get(key)
        if found is None:
            found = self.args[key] = (array("i"), bytearray(), array("q"))
        kind, number = self._kind_and_value(value)
        found[0].append(row)
        found[1].append(kind)
        found[2].append(number)

    def _kind_and_value(self, value: Any) -> tuple[int, int]:
        if value is None:
            return NULL, 0
        if isinstance(value, bool):
            return BOOL, int(value)
        if isinstance(value, int):
            return (INT, value) if value in _INT64 else (LARGE, self.text(str(value)))
        if isinstance(value, (_Literal, float)):
            return REAL, _BITS.unpack(_REAL.pack(float(value)))[0]
        if isinstance(value, str):
            return TEXT, self.text(value)
        return JSON, self.text(json.dumps(_plain(value), ensure_ascii=False))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Literal)


def scan(path: Path, wanted_keys: frozenset[str] | None) -> Scan:
    """Read a Chrome trace, plain or gzip, in pure Python.

    Args:
        path: The file.
        wanted_keys: Names of the arguments to keep; None keeps all.

    Raises:
        CorruptTraceError: Nothing of it can be read.
        InputError: The file cannot be opened.
    """
    lost: list[str] = []
    raw = read_bytes(path, lost)
    text = as_text(raw, path)
    columns = _Columns(wanted_keys)
    top: dict[str, Any] = {}
    walker = _Walker(text, columns, top, lost)
    try:
        walker.walk()
    except _StopError as stop:
        is_cut = _SPACE.match(text, stop.place).end() >= len(text)  # type: ignore[union-attr]
        is_cut |= stop.place >= len(text) - 1
        what = "the file is truncated" if is_cut else "the rest is not JSON"
        place = len(text[: stop.place].encode("utf-8", "surrogatepass"))
        lost.append(f"{what}: byte {place:,} of {len(raw):,}")
    lost += [_told(what, count) for what, count in columns.counts.items()]
    return _finish(columns, top, lost, len(raw))


def _told(what: str, count: int) -> str:
    told = {
        "text cut": "texts longer than 1 MiB were truncated",
        "bad ts": "events have an invalid time",
        "bad dur": "events have an invalid duration",
        "deep": "values nested too deeply were skipped",
        "not an object": "events are not JSON objects",
    }
    return f"{count:,} {told[what]}"


def read_bytes(path: Path, lost: list[str]) -> bytes:
    """Return the decompressed content of a file; `lost` receives what a truncated gzip lacks.

    Raises InputError if it is too large: this implementation holds the text and all values in
    memory.
    """
    pieces, length = [], 0
    for piece in chunks(path, lost):
        length += len(piece)
        if length > _MAX_BYTES:
            raise InputError(
                f"{path} holds more than {_MAX_BYTES >> 20:,} MiB of text, which requires the"
                " native core",
                hint="run warpline doctor to see why the core is missing",
            )
        pieces.append(piece)
    return b"".join(pieces)


def as_text(raw: bytes, path: Path) -> str:
    """Return JSON text from its bytes. Raises CorruptTraceError for UTF-16 and UTF-32."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or raw[:4].count(0) >= 2:
        raise CorruptTraceError(
            f"{path}: its text is UTF-16 or UTF-32", hint="convert it to UTF-8, which JSON requires"
        )
    return raw.decode("utf-8-sig", "replace")


class _StopError(Exception):
    """The text ends, or stops being JSON, at a position."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class _Walker:
    """Walks the top level of a trace, and its events one by one."""

    def __init__(self, text: str, columns: _Columns, top: dict[str, Any], lost: list[str]) -> None:
        self._text = text
        self._columns = columns
        self._top = top
        self._lost = lost
        self._decode = json.JSONDecoder(strict=False, parse_float=_Literal).raw_decode

    def walk(self) -> None:
        place = self._skip(0)
        if self._at(place) == "[":
            place = self._events(place)
        elif self._at(place) == "{":
            place = self._object(place)
        else:
            raise _StopError(place)
        rest = self._skip(place)
        if rest < len(self._text):
            self._lost.append(
                f"{len(self._text) - rest:,} characters after the end of the trace were not read"
            )

    def _object(self, place: int) -> int:
        for key, start in self._members(place):
            if key == "traceEvents" and self._at(start) == "[":
                end = self._events(start)
            else:
                end, value = self._value(start)
                is_kept = end - start <= _MAX_TOP_CHARACTERS and len(self._top) < _MAX_TOP_MEMBERS
                if is_kept:
                    self._top[key] = _plain(value)
            self._place = end
        return self._place

    def _members(self, place: int) -> Iterator[tuple[str, int]]:
        """Yield the key and the position of the value of each member; the caller sets `_place`."""
        self._place = place + 1
        is_first = True
        while True:
            place = self._skip(self._place)
            if self._at(place) == "}":
                self._place = place + 1
                return
            if not is_first:
                place = self._skip(self._after(place, ","))
            if self._at(place) != '"':
                raise _StopError(place)
            end, key = self._value(place)
            yield str(key), self._skip(self._after(self._skip(end), ":"))
            is_first = False

    def _events(self, place: int) -> int:
        place, is_first = place + 1, True
        while True:
            place = self._skip(place)
            if self._at(place) == "]":
                return place + 1
            if not is_first:
                place = self._skip(self._after(place, ","))
                if self._at(place) == "]":  # a trailing comma, which some writers leave
                    return place + 1
            place, event = self._value(place)
            if isinstance(event, dict):
                self._columns.add(event)
            else:
                self._columns.count("not an object")
            is_first = False

    def _value(self, place: int) -> tuple[int, Any]:
        try:
            value, end = self._decode(self._text, place)
        except (ValueError, RecursionError) as error:
            return self._value_apart(place, error)
        is_suspect = isinstance(value, (dict, list)) and self._opens(place, end) > MAX_DEPTH
        return self._value_apart(place, None) if is_suspect else (end, value)

    def _opens(self, start: int, end: int) -> int:
        return self._text.count("[", start, end) + self._text.count("{", start, end)

    def _value_apart(self, place: int, error: Exception | None) -> tuple[int, Any]:
        """Return a value without its too deeply nested parts."""
        end, cuts = self._extent(place)
        if error is not None and not cuts:
            raise _StopError(min(getattr(error, "pos", place), len(self._text)))
        text, at = "", place
        for start, stop in cuts:
            self._columns.count("deep")
            text, at = f"{text}{self._text[at:start]}null", stop
        try:
            return end, json.loads(text + self._text[at:end], strict=False, parse_float=_Literal)
        except (ValueError, RecursionError):
            raise _StopError(place) from None

    def _extent(self, place: int) -> tuple[int, list[tuple[int, int]]]:
        """Return where a value ends, and the extents of its too deeply nested parts."""
        depth, cuts, cut_start = 0, [], 0
        for found in _STRING_OR_BRACKET.finditer(self._text, place):
            mark = found[0][0]
            if mark == '"' and not found[1]:  # the text ends inside it
                break
            if mark in "[{":
                depth += 1
                if depth == MAX_DEPTH + 1:
                    cut_start = found.start()
            elif mark in "]}":
                if depth == MAX_DEPTH + 1:
                    cuts.append((cut_start, found.end()))
                depth -= 1
            if depth <= 0:
                return found.end(), cuts
        raise _StopError(len(self._text))

    def _skip(self, place: int) -> int:
        return _SPACE.match(self._text, place).end()  # type: ignore[union-attr]

    def _at(self, place: int) -> str:
        return self._text[place : place + 1]

    def _after(self, place: int, mark: str) -> int:
        if self._at(place) != mark:
            raise _StopError(place)
        return place + 1


def _plain(value: Any) -> Any:
    """Return a value with literals converted to numbers."""
    if isinstance(value, _Literal):
        return float(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def to_ns(value: object) -> int | None:
    """Return microseconds (a number or text) as whole ns; None if not a 64-bit number.

    Half ns round away from zero.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000 if abs(value) * 1000 < _MAX_US else None
    if not isinstance(value, str):
        return None
    simple = _SIMPLE_US.fullmatch(value)
    if simple is None:
        return _decimal_ns(value)
    sign, whole, part = simple.groups()
    time_ns = int(whole) * 1000 + (int(part.ljust(3, "0")) if part else 0)
    if time_ns >= _MAX_US:
        return None
    return -time_ns if sign else time_ns


def _decimal_ns(text: str) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent out of range
        return None
    if not exact.is_finite() or exact.adjusted() > 17:
        return None
    if exact.adjusted() < -5:
        return 0
    scaled = int(exact.scaleb(6))  # thousandths of a ns are enough to see a half
    rounded = (abs(scaled) + 500) // 1000
    if rounded >= _MAX_US:
        return None
    return -rounded if scaled < 0 else rounded


def _finish(columns: _Columns, top: Mapping[str, Any], lost: Sequence[str], n_bytes: int) -> Scan:
    def of(values: array[Any] | bytearray, dtype: str) -> np.ndarray[Any, Any]:
        return np.frombuffer(values, dtype) if len(values) else np.zeros(0, dtype)

    return Scan(
        phase=of(columns.phase, "uint8"),
        name=of(columns.ints["name"], "int32"),
        category=of(columns.ints["cat"], "int32"),
        pid=of(columns.ints["pid"], "int32"),
        tid=of(columns.ints["tid"], "int32"),
        id=of(columns.ints["id"], "int32"),
        ts_ns=of(columns.times["ts"], "int64"),
        dur_ns=of(columns.times["dur"], "int64"),
        has_ts=of(columns.has_time["ts"], "bool"),
        has_dur=of(columns.has_time["dur"], "bool"),
        args={
            _LONE_SURROGATE.sub("\ufffd", key).encode(): Argument(
                of(event, "int32"), of(kind, "uint8"), of(value, "int64")
            )
            for key, (event, kind, value) in columns.args.items()
        },
        texts=[text.encode() for text in columns.number],
        top=top,
        lost=tuple(lost),
        n_bytes=n_bytes,
    )
