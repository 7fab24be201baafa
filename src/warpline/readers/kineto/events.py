"""The events of a trace as rows, their texts and arguments as columns, scanned on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import F64, I32, I64, BoolArray
from warpline.ops.group import factorize
from warpline.ops.join import lookup_rows
from warpline.readers.kineto import scan_native, scan_python
from warpline.readers.kineto.kinds import Kind, kinds_of
from warpline.readers.kineto.scan import (
    BOOL,
    INT,
    JSON,
    LARGE,
    NO_TEXT,
    NULL,
    REAL,
    TEXT,
    U8,
    Scan,
)
from warpline.trace.strings import StringPool

# Arguments that the tables hold. Some texts may fill most of a large file. A separate scan reads
# them on first use, so that other commands do not pay for them.
MAIN_KEYS = frozenset(
    (
        "correlation",
        "External id",
        "external id",
        "Sequence number",
        "Fwd thread id",
        "device",
        "context",
        "inContext",
        "stream",
        "bytes",
        "grid",
        "block",
        "cluster",
        "registers per thread",
        "shared memory",
        "dynamic shared memory",
        "static shared memory",
        "local memory per thread",
        "graph id",
        "graph node id",
        "priority",
        "kind",
        "size",
        "fromDevice",
        "inDevice",
        "toDevice",
        "cuda_sync_kind",
        "wait_on_stream",
        "wait_on_cuda_event_record_corr_id",
        "wait_on_cuda_event_id",
        "event_id",
        "cuda_event_id",
        "name",
        "labels",
        "Collective name",
        "In msg nelems",
        "Out msg nelems",
        "Group size",
        "dtype",
        "Process Group Name",
        "Process Group ID",
        "Process Group Ranks",
        "Rank",
        "Seq",
        "Src Rank",
        "Dst Rank",
        "flops",
        "Flops",
        "FLOPS",
        "FLOPs",
        "Input Dims",
        "Input dims",
        "Input type",
        "Python id",
        "Python parent id",
        "Python module id",
        "Device Type",
        "Device Id",
        "Addr",
        "Bytes",
        "Total Allocated",
        "Total Reserved",
    )
)
LONG_KEYS = frozenset(
    (
        "Input Strides",
        "Concrete Inputs",
        "Module Hierarchy",
        "Call stack",
    )
)
_GROUPS = (MAIN_KEYS, LONG_KEYS)
# Up to this size, all arguments take little memory, and the file is scanned once.
_SMALL_BYTES = 1 << 24

_NUMBER = re.compile(r"(?:[A-Za-z_ ]*\s)?(-?[0-9]{1,18})")
_INTEGER = re.compile(rb"\s*(-?[0-9]{1,20})(?:\.0*)?\s*")
_HEXADECIMAL = re.compile(rb"\s*0[xX]([0-9a-fA-F]{1,16})\s*")


@dataclass(frozen=True)
class Values:
    """One argument of some events.

    Attributes:
        kind: Shape (n,), uint8, as in `Argument`; NULL also where an event has none.
        value: Shape (n,), int64, likewise.
    """

    kind: U8
    value: I64

    @property
    def text(self) -> I32:
        """The number of the text, or of the JSON; -1 where there is none. Shape (n,)."""
        is_text = (self.kind == TEXT) | (self.kind == JSON) | (self.kind == LARGE)
        return np.where(is_text, self.value, NO_TEXT).astype(np.int32)


class Events:
    """The events of one file.

    Args:
        path: The file.
        pool: Where texts become rows.

    Raises:
        InputError: The file cannot be read.
    """

    def __init__(self, path: Path, pool: StringPool) -> None:
        self.path = path
        self.pool = pool
        is_small = path.stat().st_size <= _SMALL_BYTES
        self._groups = (frozenset().union(*_GROUPS),) if is_small else _GROUPS
        first = _scan(path, self._groups[0])
        self._arguments: dict[frozenset[str] | None, _ArgumentTexts] = {
            self._groups[0]: _ArgumentTexts(first, pool)
        }
        self.scan = first
        self.kinds = kinds_of(first)

    def __len__(self) -> int:
        return len(self.scan)

    def rows(self, *kinds: Kind) -> I64:
        """Return the events of some kinds, ascending."""
        if len(kinds) == 1:
            return np.flatnonzero(self.kinds == kinds[0])
        return np.flatnonzero(np.isin(self.kinds, kinds))

    @cached_property
    def _texts(self) -> _ArgumentTexts:
        return self._arguments[self._groups[0]]

    def text(self, number: int) -> str:
        """Return a text of the events' own columns; "" for none."""
        return "" if number < 0 else self.scan.texts[number].decode("utf-8", "replace")

    def with_argument(self, rows: I64, key: str) -> I64:
        """Return which of some events have an argument, in their order."""
        argument = self._owner(key).scan.args.get(key.encode())
        return rows[:0] if argument is None else rows[np.isin(rows, argument.event)]

    def names(self, rows: I64) -> I32:
        """Return the pool's rows of the names of some events."""
        return self._texts.pool_rows(self.scan.name[rows])

    def per_name(self, rows: I64, make: Callable[[str], int]) -> I64:
        """Return a number for the name of each event. `make` is called once per name."""
        groups = factorize(self.scan.name[rows])
        values = [make(self.text(number)) for number in groups.uniques.tolist()]
        numbers: I64 = np.array(values, np.int64)[groups.codes]
        return numbers

    def per_pid(self, rows: I64) -> I64:
        """Return the numeric pid of each event; -1 for other texts."""
        groups = factorize(self.scan.pid[rows])
        numbers = [number_in(self.text(number)) for number in groups.uniques.tolist()]
        known = [-1 if number is None else number for number in numbers]
        values: I64 = np.array(known, np.int64)[groups.codes]
        return values

    def reals(self, rows: I64) -> dict[str, tuple[I64, F64]]:
        """Return the numeric arguments of some events: name -> events and values.

        This reads all arguments of the file.
        """
        by_name = {}
        scanned = self._scanned(None).scan
        for name, argument in scanned.args.items():
            is_number = (argument.kind == INT) | (argument.kind == REAL)
            places = np.flatnonzero(is_number & np.isin(argument.event, rows))
            if len(places):
                value = argument.value[places].astype(np.int64)
                is_real = argument.kind[places] == REAL
                values = np.where(is_real, value.view(np.float64), value.astype(np.float64))
                owners = argument.event[places].astype(np.int64)
                by_name[name.decode("utf-8", "replace")] = owners, values
        return by_name

    def integers(self, rows: I64, *keys: str) -> tuple[I64, BoolArray]:
        """Return the first of some arguments that is an integer, and the mask.

        A number in a text counts.
        """
        values, has_value = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        for key in keys:
            texts = self._owner(key)
            fresh, valid = texts.integers(texts.find(rows, key))
            valid &= ~has_value
            values[valid] = fresh[valid]
            has_value |= valid
        return values, has_value

    def correlations(self, rows: I64) -> tuple[I64, BoolArray]:
        """Return the correlation of GPU operations and calls, and the mask.

        An event without one may be the end of an arrow, whose number counts.
        """
        values, has_value = self.integers(rows, "correlation")
        missing = np.flatnonzero(~has_value)
        links, numbers = self._links if len(missing) else (missing, missing)
        if len(links):
            scan, chosen = self.scan, rows[missing]
            columns = (scan.pid, scan.tid, scan.ts_ns)
            at = lookup_rows([c[chosen] for c in columns], [c[links] for c in columns])
            linked = missing[at.found]
            values[linked], has_value[linked] = numbers[at.row[at.found]], True
        return values, has_value

    @cached_property
    def _links(self) -> tuple[I64, I64]:
        """Ends of arrows between CPU and GPU, and their numbers."""
        rows = self.rows(Kind.LINK)
        groups = factorize(self.scan.id[rows])
        parsed = [_integer(self.text(number).encode()) for number in groups.uniques.tolist()]
        is_one = np.array([number is not None for number in parsed], np.bool_)
        numbers = np.array([number or 0 for number in parsed], np.int64)
        return rows[is_one[groups.codes]], numbers[groups.codes][is_one[groups.codes]]

    def texts_of(self, rows: I64, *keys: str) -> tuple[I32, BoolArray]:
        """Return the pool's rows of the first of some arguments that is a text or JSON."""
        values, has_text = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.bool_)
        for key in keys:
            texts = self._owner(key)
            numbers = texts.find(rows, key).text
            valid = (numbers != NO_TEXT) & ~has_text
            values[valid] = texts.pool_rows(numbers[valid])
            has_text |= valid
        return values, has_text

    def triples(self, rows: I64, key: str) -> tuple[I64, BoolArray]:
        """Return an argument that is a list of up to three integers: shape (n, 3), and the mask."""
        texts = self._owner(key)
        found = texts.find(rows, key)
        groups = factorize(found.text)
        parsed = [_three(self._raw(texts, number)) for number in groups.uniques.tolist()]
        table = np.array([value or (0, 0, 0) for value in parsed], np.int64).reshape(-1, 3)
        is_one = np.array([value is not None for value in parsed], np.bool_)
        return table[groups.codes], is_one[groups.codes]

    def _raw(self, texts: _ArgumentTexts, number: int) -> bytes:
        return b"" if number < 0 else texts.scan.texts[number]

    def _owner(self, key: str) -> _ArgumentTexts:
        """Return the scan that kept an argument."""
        return self._scanned(next(keys for keys in self._groups if key in keys))

    def _scanned(self, wanted: frozenset[str] | None) -> _ArgumentTexts:
        if wanted not in self._arguments:
            again = _scan(self.path, wanted)
            if len(again) != len(self.scan):
                raise CorruptTraceError(f"{self.path} changed during reading", hint="open it again")
            self._arguments[wanted] = _ArgumentTexts(again, self.pool)
        return self._arguments[wanted]


class _ArgumentTexts:
    """The arguments that one scan kept, and the pool's rows of its texts."""

    def __init__(self, scan: Scan, pool: StringPool) -> None:
        self.scan = scan
        self._pool = pool
        self._pool_rows = np.full(len(scan.texts), -1, np.int32)

    def find(self, rows: I64, key: str) -> Values:
        """Return an argument of some events, in any order."""
        argument = self.scan.args.get(key.encode())
        if argument is None or not len(argument.event):
            return Values(np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int64))
        at = np.searchsorted(argument.event, rows.astype(np.int32))
        at = np.minimum(at, len(argument.event) - 1)
        found = argument.event[at] == rows
        kind = np.where(found, argument.kind[at], NULL).astype(np.uint8)
        return Values(kind, np.where(found, argument.value[at], 0).astype(np.int64))

    def integers(self, given: Values) -> tuple[I64, BoolArray]:
        """Return arguments as integers, and the mask."""
        valid = (given.kind == INT) | (given.kind == BOOL)
        values = np.where(valid, given.value, 0)
        reals = np.flatnonzero(given.kind == REAL)
        if len(reals):
            real = given.value[reals].view(np.float64)
            real = np.where(np.abs(real) < 2**53, real, 0.5)
            is_whole = real == np.trunc(real)
            values[reals], valid[reals] = np.where(is_whole, real, 0).astype(np.int64), is_whole
        places = np.flatnonzero((given.kind == TEXT) | (given.kind == LARGE))
        if len(places):
            groups = factorize(given.value[places])
            parsed = [_integer(self.scan.texts[number]) for number in groups.uniques.tolist()]
            table = np.array([0 if value is None else value for value in parsed], np.int64)
            values[places] = table[groups.codes]
            valid[places] = np.array([value is not None for value in parsed])[groups.codes]
        return values, valid

    def pool_rows(self, numbers: I32) -> I32:
        """Return the pool's row of each text. A missing one has that of the empty text."""
        is_new = np.zeros(len(self._pool_rows) + 1, np.bool_)
        is_new[numbers] = True  # -1 is the last place
        is_none, is_new = bool(is_new[-1]), is_new[:-1]
        is_new &= self._pool_rows < 0
        for number in np.flatnonzero(is_new).tolist():
            self._pool_rows[number] = self._pool.intern(self.scan.texts[number])
        if not is_none:
            return self._pool_rows[numbers]
        return np.where(numbers < 0, self._pool.intern(b""), self._pool_rows[numbers])


def number_in(text: str) -> int | None:
    """Return the number in a pid or tid, such as 7 in "stream 7"."""
    found = _NUMBER.fullmatch(text.strip())
    return int(found[1]) if found else None


def _scan(path: Path, wanted: frozenset[str] | None) -> Scan:
    scanned = scan_native.scan(path, wanted)
    return scan_python.scan(path, wanted) if scanned is None else scanned


def _integer(raw: bytes) -> int | None:
    """Return the integer in a text. Unsigned 64-bit values wrap."""
    found = _INTEGER.fullmatch(raw)
    value = int(found[1]) if found else None
    if value is None:
        hexadecimal = _HEXADECIMAL.fullmatch(raw)
        value = int(hexadecimal[1], 16) if hexadecimal else None
    if value is None or not -(1 << 63) <= value < 1 << 64:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value


def _three(raw: bytes) -> tuple[int, int, int] | None:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not 1 <= len(values) <= 3:
        return None
    if not all(type(value) is int and 0 <= value < 1 << 40 for value in values):
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z
