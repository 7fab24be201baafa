"""The events of a trace as rows, their texts and arguments as columns, scanned on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import factorize
from warpline.readers.kineto import scan as python_scan
from warpline.readers.kineto.kinds import Kind, kinds_of
from warpline.readers.kineto.scan import BOOL, INT, NO_TEXT, REAL, TEXT, Scan
from warpline.trace.strings import StringPool

# Arguments by who asks for them: a scan keeps those of one group, so that most of a large file's
# bytes are passed over.
DEVICE_KEYS = frozenset(
    (
        "correlation",
        "External id",
        "external id",
        "device",
        "context",
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
        "Process Group Ranks",
        "Rank",
        "Seq",
        "Src Rank",
        "Dst Rank",
    )
)
OP_KEYS = frozenset(
    (
        "External id",
        "external id",
        "Sequence number",
        "Fwd thread id",
        "flops",
        "Flops",
        "FLOPS",
        "FLOPs",
        "Input Dims",
        "Input dims",
        "Input type",
        "Input Strides",
        "Concrete Inputs",
        "Module Hierarchy",
        "Call stack",
    )
)
PYTHON_KEYS = frozenset(("Python id", "Python parent id", "Python module id"))
MEMORY_KEYS = frozenset(
    ("Device Type", "Device Id", "Addr", "Bytes", "Total Allocated", "Total Reserved")
)
_GROUPS = (DEVICE_KEYS, OP_KEYS, PYTHON_KEYS, MEMORY_KEYS)
# A file of this size costs little memory with all arguments, and is then scanned once.
_SMALL_BYTES = 1 << 24

_INTEGER = re.compile(rb"\s*(-?[0-9]{1,20})(?:\.0*)?\s*")
_HEXADECIMAL = re.compile(rb"\s*0[xX]([0-9a-fA-F]{1,16})\s*")


@dataclass(frozen=True)
class Arguments:
    """One argument of some events.

    Attributes:
        kind: Shape (n,), uint8, as in `Scan`; 0 also where the event has no such argument.
        integer: Shape (n,), int64.
        real: Shape (n,), float64.
        text: Shape (n,), int32, numbers of the texts of the scan that read it.
    """

    kind: np.ndarray[Any, np.dtype[np.uint8]]
    integer: I64
    real: np.ndarray[Any, np.dtype[np.float64]]
    text: I32


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

    def names(self, rows: I64) -> I32:
        """Return the pool's rows of the names of some events."""
        return self._texts.pool_rows(self.scan.name[rows])

    def per_name(self, rows: I64, make: Callable[[str], int]) -> I64:
        """Return a number for the name of each event; `make` sees every name once."""
        groups = factorize(self.scan.name[rows])
        values = [make(self.text(number)) for number in groups.uniques.tolist()]
        numbers: I64 = np.array(values, np.int64)[groups.codes]
        return numbers

    def integers(self, rows: I64, *keys: str) -> tuple[I64, BoolArray]:
        """Return the first of some arguments that an event has as an integer, and where.

        A number in a text counts.
        """
        values, found = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        for key in keys:
            texts = self._owner(key)
            fresh, valid = texts.integers(texts.find(rows, key))
            valid &= ~found
            values[valid] = fresh[valid]
            found |= valid
        return values, found

    def texts_of(self, rows: I64, *keys: str) -> tuple[I32, BoolArray]:
        """Return the pool's rows of the first of some arguments that is a text or JSON."""
        values, found = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.bool_)
        for key in keys:
            texts = self._owner(key)
            numbers = texts.find(rows, key).text
            valid = (numbers != NO_TEXT) & ~found
            values[valid] = texts.pool_rows(numbers[valid])
            found |= valid
        return values, found

    def triples(self, rows: I64, key: str) -> tuple[I64, BoolArray]:
        """Return an argument that is a list of up to three integers: shape (n, 3), and where."""
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
        group = next((keys for keys in self._groups if key in keys), None)
        if group not in self._arguments:
            again = _scan(self.path, group)
            if len(again) != len(self.scan):
                raise CorruptTraceError(
                    f"{self.path} changed while it was read", hint="open it again"
                )
            self._arguments[group] = _ArgumentTexts(again, self.pool)
        return self._arguments[group]


class _ArgumentTexts:
    """The arguments that one scan kept, and the pool's rows of its texts."""

    def __init__(self, scan: Scan, pool: StringPool) -> None:
        self.scan = scan
        self._pool = pool
        self._pool_rows = np.full(len(scan.texts), -1, np.int32)

    @cached_property
    def _keys(self) -> dict[bytes, I64]:
        """Places of each key's arguments, ascending."""
        if not len(self.scan.arg_key):
            return {}
        groups = factorize(self.scan.arg_key)
        order = np.argsort(groups.codes, kind="stable")
        bounds = np.cumsum(np.bincount(groups.codes))[:-1]
        names = [self.scan.texts[number] for number in groups.uniques.tolist()]
        return dict(zip(names, np.split(order, bounds), strict=True))

    def find(self, rows: I64, key: str) -> Arguments:
        """Return an argument of some events, which ascend or not."""
        scan, places = self.scan, self._keys.get(key.encode())
        if places is None or not len(rows):
            n = len(rows)
            nothing = np.zeros(n, np.int64), np.zeros(n), np.full(n, NO_TEXT, np.int32)
            return Arguments(np.zeros(n, np.uint8), *nothing)
        owners = scan.arg_event[places]
        # Of a key that an event has twice the last one counts.
        at = np.maximum(np.searchsorted(owners, rows, side="right") - 1, 0)
        found, chosen = owners[at] == rows, places[at]
        return Arguments(
            np.where(found, scan.arg_kind[chosen], 0).astype(np.uint8),
            np.where(found, scan.arg_int[chosen], 0),
            np.where(found, scan.arg_float[chosen], 0.0),
            np.where(found, scan.arg_text[chosen], NO_TEXT).astype(np.int32),
        )

    def integers(self, found: Arguments) -> tuple[I64, BoolArray]:
        """Return arguments as integers, and where they are."""
        values = found.integer.copy()
        valid = (found.kind == INT) | (found.kind == BOOL)
        is_whole = (found.kind == REAL) & (np.abs(found.real) < 2**53)
        is_whole &= found.real == np.trunc(np.where(is_whole, found.real, 0.0))
        values[is_whole] = found.real[is_whole].astype(np.int64)
        is_text = ((found.kind == TEXT) | (found.kind == REAL)) & (found.text != NO_TEXT)
        if is_text.any():
            places = np.flatnonzero(is_text)
            groups = factorize(found.text[places])
            parsed = [_integer(self.scan.texts[number]) for number in groups.uniques.tolist()]
            table = np.array([0 if value is None else value for value in parsed], np.int64)
            values[places] = table[groups.codes]
            valid[places] = np.array([value is not None for value in parsed])[groups.codes]
        return values, valid | (is_whole & ~is_text)

    def pool_rows(self, numbers: I32) -> I32:
        """Return the pool's row of each text; of none, that of the empty text."""
        is_new = np.zeros(len(self._pool_rows) + 1, np.bool_)
        is_new[numbers] = True  # -1 is the last place
        is_none, is_new = bool(is_new[-1]), is_new[:-1]
        is_new &= self._pool_rows < 0
        for number in np.flatnonzero(is_new).tolist():
            self._pool_rows[number] = self._pool.intern(self.scan.texts[number])
        if not is_none:
            return self._pool_rows[numbers]
        return np.where(numbers < 0, self._pool.intern(b""), self._pool_rows[numbers])


def _scan(path: Path, wanted: frozenset[str] | None) -> Scan:
    return python_scan.scan(path, wanted)


def _integer(raw: bytes) -> int | None:
    """Return the integer that a text holds; unsigned 64-bit values wrap."""
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
