"""The scan of a Chrome trace without the native core: by the `json` module, element by element."""

from __future__ import annotations

import json
import re
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np

from warpline.errors import InputError
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

MAX_DEPTH = 256  # nesting depth of a value; deeper ones are skipped
MAX_TEXT_BYTES = 1 << 20  # longer texts are truncated
_MAX_BYTES = 1 << 30
_MAX_TIME_NS = 1 << 62
_MAX_DIGITS = 4000  # Python converts few more of them to an integer
_NS = Decimal("0.001")  # in microseconds
_BITS, _REAL = struct.Struct("<q"), struct.Struct("<d")
_DEEP = object()  # a value that was skipped
_TOO_DEEP = "values nested too deeply were skipped"
_NO_EVENT = "events are not JSON objects"

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"[+-]?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)


class _Literal(str):
    """A number that is not a plain integer, as written in the file."""

    __slots__ = ()


class _Large(str):
    """An integer of more digits than Python converts."""

    __slots__ = ()


def _decoder(**more: Any) -> Callable[[str, int], tuple[Any, int]]:
    literal = {"parse_float": _Literal, "parse_constant": _Literal}
    return json.JSONDecoder(strict=False, **literal, **more).raw_decode


_decode = _decoder()  # without a function for integers: it would be called for most values
_decode_any_integer = _decoder(
    parse_int=lambda digits: int(digits) if len(digits) < _MAX_DIGITS else _Large(digits)
)


def scan(path: Path, wanted_keys: frozenset[str] | None) -> Scan:
    """Read a Chrome trace, plain or gzip.

    Args:
        path: The file.
        wanted_keys: Names of the arguments to keep; None keeps all.

    Raises:
        CorruptTraceError: Nothing of it can be read.
        InputError: The file cannot be opened, or is too large.
    """
    lost: list[str] = []
    raw = _read(path, lost)
    reading = _Reading(raw.decode("utf-8-sig", "replace"), wanted_keys)
    try:
        reading.trace()
    except _StopError as stop:
        before = reading.text[: stop.place].encode("utf-8", "surrogatepass")
        lost.append(f"{stop}: byte {len(before):,} of {len(raw):,}")
    return reading.columns.finish(reading.top, lost, len(raw))


def _read(path: Path, lost: list[str]) -> bytes:
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


class _StopError(Exception):
    """The text ends, or stops being JSON, at a position."""

    def __init__(self, place: int, what: str = "the rest is not JSON") -> None:
        super().__init__(what)
        self.place = place


class _Reading:
    """A place in a trace's text, and what was found before it."""

    def __init__(self, text: str, wanted: frozenset[str] | None) -> None:
        self.text = text
        self.columns = _Columns(wanted)
        self.top: dict[str, Any] = {}
        self._place = 0

    def trace(self) -> None:
        """Read the text. Raises _StopError where it is not JSON."""
        if self._peek() == "[":
            self._events()
        else:
            for _ in self._items("{}"):
                self._member()
        rest = len(self.text[self._place :].strip(" \t\n\r\0"))
        if rest:
            self.columns.lost["characters after the end of the trace were not read"] = rest

    def _member(self) -> None:
        if self._peek() != '"':
            raise _StopError(self._place)
        key = self._value()
        self._take(":")
        is_events = key == "traceEvents"
        if is_events:  # the last of two members counts
            self.columns = _Columns(self.columns.wanted)
        if self._peek() == "[" and is_events:
            self._events()
        elif (value := _plain(self._value())) is _DEEP:
            self.columns.lost[_TOO_DEEP] += 1
        elif not is_events:
            self.top[key] = value

    def _events(self) -> None:
        for _ in self._items("[]"):
            event = self._value()
            if isinstance(event, dict):
                self.columns.add(event)
            else:
                self.columns.lost[_TOO_DEEP if event is _DEEP else _NO_EVENT] += 1

    def _items(self, brackets: str) -> Iterator[None]:
        """Stop at each item of an array or object; the caller reads it."""
        self._take(brackets[0])
        while self._peek() != brackets[1]:
            yield
            if self._peek() != brackets[1]:
                self._take(",")
        self._take(brackets[1])

    def _peek(self) -> str:
        self._place = _SPACE.match(self.text, self._place).end()  # type: ignore[union-attr]
        return self.text[self._place : self._place + 1]

    def _take(self, mark: str) -> None:
        character = self._peek()
        if character != mark:
            raise _StopError(self._place) if character else self._cut()
        self._place += 1

    def _value(self) -> Any:
        """Return the value here, or _DEEP instead of one that is nested too deeply."""
        self._peek()
        start = self._place
        try:
            value, self._place = _decode(self.text, start)
        except RecursionError:
            self._place = self._end_of_nested(start)
            return _DEEP
        except json.JSONDecodeError as error:
            self._end_of_nested(start)
            raise _StopError(error.pos) from None
        except ValueError:
            value, self._place = _decode_any_integer(self.text, start)
        return value

    def _end_of_nested(self, start: int) -> int:
        depth = 0
        for found in _STRING_OR_BRACKET.finditer(self.text, start):
            if found[0][0] == '"':
                if not found[1]:
                    break
            else:
                depth += 1 if found[0] in "[{" else -1
            if depth <= 0:
                return found.end()
        raise self._cut()

    def _cut(self) -> _StopError:
        return _StopError(len(self.text), "the file is truncated")


class _Columns:
    """The columns of a scan while it grows."""

    def __init__(self, wanted: frozenset[str] | None) -> None:
        self.wanted = wanted
        self.lost: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}
        self._phase = array("B")
        self._texts = {name: array("i") for name in ("name", "cat", "pid", "tid", "id")}
        self._times_ns = {name: array("q") for name in ("ts", "dur")}
        self._has_time = {name: array("B") for name in ("ts", "dur")}
        self._args: dict[str, tuple[array[int], array[int], array[int]]] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Append one event."""
        row = len(self._phase)
        phase = event.get("ph")
        code = ord(phase[0]) if type(phase) is str and phase else 0
        self._phase.append(code if code < 128 else 0)
        for name, numbers in self._texts.items():
            value = event.get(name)
            is_kept = isinstance(value, (str, int)) and not isinstance(value, bool)
            numbers.append(self._number(str(value)) if is_kept else NO_TEXT)
        for name, times_ns in self._times_ns.items():
            value = event.get(name)
            time_ns = None if value is None else to_ns(value)
            if time_ns is None and value is not None:
                self.lost[f"events have an invalid {'time' if name == 'ts' else 'duration'}"] += 1
            times_ns.append(time_ns or 0)
            self._has_time[name].append(time_ns is not None)
        args = event.get("args")
        for key, value in args.items() if isinstance(args, dict) else ():
            if self.wanted is None or key in self.wanted:
                self._add_argument(row, key, value)

    def _add_argument(self, row: int, key: str, value: Any) -> None:
        found = self._args.get(key)
        if found is None:
            clean = _LONE_SURROGATE.sub("\ufffd", key)
            found = self._args[key] = self._args.setdefault(
                clean, (array("i"), array("B"), array("q"))
            )
        kind, number = self._kind_and_value(value)
        if number is not None:
            rows, kinds, numbers = found
            rows.append(row)
            kinds.append(kind)
            numbers.append(number)

    def _kind_and_value(self, value: Any) -> tuple[int, int | None]:
        if type(value) in (str, _Large):
            return TEXT if type(value) is str else LARGE, self._number(value)
        if type(value) is int:
            is_small = -(1 << 63) <= value < 1 << 63
            return (INT, value) if is_small else (LARGE, self._number(str(value)))
        if isinstance(value, _Literal):
            return REAL, _BITS.unpack(_REAL.pack(float(value)))[0]
        if value is None or isinstance(value, bool):
            return (NULL, 0) if value is None else (BOOL, int(value))
        plain = _plain(value)
        if plain is _DEEP:
            self.lost[_TOO_DEEP] += 1
            return JSON, None
        return JSON, self._number(json.dumps(plain, ensure_ascii=False))

    def _number(self, text: str) -> int:
        """Return the number of a text."""
        number = self._numbers.get(text)
        if number is None:
            clean = _LONE_SURROGATE.sub("\ufffd", text)
            if len(clean) > MAX_TEXT_BYTES >> 2 and len(clean.encode()) > MAX_TEXT_BYTES:
                clean = clean.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
                self.lost["texts longer than 1 MiB were truncated"] += 1
            number = self._numbers.setdefault(clean, len(self._numbers))
        return number

    def finish(self, top: Mapping[str, Any], lost: Sequence[str], n_bytes: int) -> Scan:
        """Return the columns as a scan."""
        texts = {name: np.asarray(numbers) for name, numbers in self._texts.items()}
        return Scan(
            phase=np.asarray(self._phase),
            name=texts["name"],
            category=texts["cat"],
            pid=texts["pid"],
            tid=texts["tid"],
            id=texts["id"],
            ts_ns=np.asarray(self._times_ns["ts"]),
            dur_ns=np.asarray(self._times_ns["dur"]),
            has_ts=np.asarray(self._has_time["ts"]).view(np.bool_),
            has_dur=np.asarray(self._has_time["dur"]).view(np.bool_),
            args={
                _LONE_SURROGATE.sub("\ufffd", key).encode(): Argument(*map(np.asarray, columns))
                for key, columns in self._args.items()
                if columns[0]
            },
            texts=[text.encode() for text in self._numbers],
            top=top,
            lost=(*lost, *(f"{count:,} {told}" for told, count in self.lost.items())),
            n_bytes=n_bytes,
        )


def to_ns(value: object) -> int | None:
    """Return microseconds (a number or text) as whole ns; None if not a 64-bit number.

    Half ns round away from zero.
    """
    text = str(value) if type(value) is int and abs(value) < _MAX_TIME_NS else value
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return None
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent out of range
        return None
    if exact.adjusted() > 17 and exact:
        return None
    time_ns = int(exact.quantize(_NS, ROUND_HALF_UP).scaleb(3)) if exact else 0
    return time_ns if abs(time_ns) < _MAX_TIME_NS else None


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value with literals converted to numbers; _DEEP if it is nested too deeply."""
    if isinstance(value, _Literal):
        return float(value)
    if not isinstance(value, (dict, list)):
        return str(value) if isinstance(value, _Large) else value
    items = value.values() if isinstance(value, dict) else value
    plain = [_plain(item, depth + 1) for item in items] if depth < MAX_DEPTH else [_DEEP]
    if _DEEP in plain:
        return _DEEP
    return dict(zip(value, plain, strict=True)) if isinstance(value, dict) else plain
