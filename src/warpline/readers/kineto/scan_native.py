"""The scan of a Chrome trace by the native core: in pieces, in bounded memory."""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.errors import CorruptTraceError, InputError
from warpline.ops.arrays import I32
from warpline.readers.kineto.chunks import chunks
from warpline.readers.kineto.scan import U8, Argument, Scan, Signed

_MESSAGE_BYTES = 256
_FREE_BYTES = 1 << 29
_MAX_BYTES_PER_BYTE = 32

# wl_json_column "fact": positions of its values.
_STOPPED, _STOPPED_AT, _TRAILING_AT = 1, 2, 3
_DAMAGES, _DAMAGED_AT = 12, 13
_ARGUMENTS = 15
_CUT, _SYNTAX, _MEMORY, _NO_TRACE = 1, 2, 3, 4
_COUNTED = {
    4: "events are not JSON objects",
    5: "events have an invalid time",
    6: "events have an invalid duration",
    7: "texts longer than 1 MiB were truncated",
    8: "arrays or objects longer than 1 MiB were skipped",
    9: "values nested too deeply were skipped",
    10: "events longer than 64 MiB were skipped",
    11: "arguments beyond 4,096 different names were skipped",
    14: "members of the file other than events were too long and were skipped",
}

# Columns of the events, and the kind of their values as numpy has it; the core returns their size.
_COLUMNS = {
    "phase": "u",
    "name": "i",
    "category": "i",
    "pid": "i",
    "tid": "i",
    "id": "i",
    "ts_ns": "i",
    "dur_ns": "i",
    "has_ts": "b",
    "has_dur": "b",
}


def scan(path: Path, wanted_keys: frozenset[str] | None) -> Scan | None:
    """Read a Chrome trace, plain or gzip; None if there is no native core.

    Args:
        path: The file.
        wanted_keys: Names of the arguments to keep; None keeps all.

    Raises:
        CorruptTraceError: Nothing of it can be read.
        InputError: The file cannot be opened, or there is not enough memory.
    """
    core = native.core()
    if core is None:
        return None
    lost: list[str] = []
    return _finish(_scanned(core, path, wanted_keys, lost), lost)


class _Scanning:
    """A scan in the native core. Its columns live as long as an array refers to one."""

    def __init__(
        self, core: native.Core, wanted_keys: frozenset[str] | None, memory_bytes: int
    ) -> None:
        names = b"".join(
            key.encode("utf-8", "replace") + b"\0"
            for key in sorted(wanted_keys or ())
            if "\0" not in key
        )
        self._core = core
        self._handle = ctypes.c_void_p()
        self._call(
            core.wl_json_open,
            names,
            len(names),
            wanted_keys is None,
            memory_bytes,
            0,  # blocks of the usual size
            ctypes.byref(self._handle),
        )
        self._wants_more = ctypes.c_int32(1)
        weakref.finalize(self, core.wl_json_close, self._handle)

    def feed(self, piece: bytes) -> bool:
        """Scan more text; return whether the scan needs more."""
        self._call(
            self._core.wl_json_feed, self._handle, piece, len(piece), ctypes.byref(self._wants_more)
        )
        return bool(self._wants_more)

    def finish(self) -> None:
        """End the text."""
        self._call(self._core.wl_json_finish, self._handle)

    def column(self, name: str, kind: str = "i") -> npt.NDArray[Any]:
        """Return a column without copying it."""
        values, value_bytes = ctypes.c_void_p(), ctypes.c_int32()
        count = self._core.wl_json_column(
            self._handle, name.encode(), ctypes.byref(values), ctypes.byref(value_bytes)
        )
        return self._array(values, count, f"{kind}{value_bytes.value or 1}")

    def argument(self, number: int) -> tuple[int, I32, U8, Signed]:
        """Return the text number of an argument's name, its events, kinds and values."""
        name, value_bytes = ctypes.c_int32(), ctypes.c_int32()
        parts = [ctypes.c_void_p() for _ in range(3)]
        count = self._core.wl_json_argument(
            self._handle,
            number,
            ctypes.byref(name),
            *(ctypes.byref(part) for part in parts),
            ctypes.byref(value_bytes),
        )
        event, kind, value = parts
        return (
            name.value,
            self._array(event, count, "i4"),
            self._array(kind, count, "u1"),
            self._array(value, count, f"i{value_bytes.value or 1}"),
        )

    def _array(self, values: ctypes.c_void_p, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        if count < 0:
            raise ValueError(f"the native core has no such column: {-count}")
        if not count:
            return np.zeros(0, dtype)
        return np.asarray(_View(self, values.value or 0, count, np.dtype(dtype)))

    def _call(self, function: Any, *arguments: Any) -> None:
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = function(*arguments, message, _MESSAGE_BYTES)
        if status == native.NO_MEMORY:
            raise InputError("not enough memory to read the trace", hint="close other programs")
        if status != native.OK:
            raise CorruptTraceError(message.value.decode("utf-8", "replace"))


class _View:
    """A scan's memory as numpy sees it. Its array keeps the scan alive."""

    def __init__(self, owner: _Scanning, address: int, count: int, dtype: np.dtype[Any]) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, True),  # read-only
            "shape": (count,),
            "typestr": dtype.str,
            "version": 3,
        }


class _Texts(Sequence[bytes]):
    """Texts by number, sliced from their blob on use."""

    def __init__(self, blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self._blob = blob
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        place = range(len(self))[number]
        begin, end = self._offsets[place : place + 2].tolist()
        return self._blob[begin:end].tobytes()


def _memory_bytes(path: Path) -> int:
    """Return how much memory a scan may use: at most half of the machine's.

    A trace needs about 7 times the bytes of its gzip file, a decompression bomb a thousand.
    """
    try:
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        return min(half, _FREE_BYTES + _MAX_BYTES_PER_BYTE * path.stat().st_size)
    except (
        AttributeError,
        ValueError,
        OSError,
    ):  # unavailable on this system, or the file cannot be opened
        return _FREE_BYTES


def _scanned(
    core: native.Core, path: Path, wanted_keys: frozenset[str] | None, lost: list[str]
) -> _Scanning:
    scanning = _Scanning(core, wanted_keys, _memory_bytes(path))
    pieces = chunks(path, lost)
    try:
        for piece in pieces:
            if not scanning.feed(piece):
                break
    finally:
        pieces.close()
    scanning.finish()
    return scanning


def _finish(scanning: _Scanning, lost: list[str]) -> Scan:
    facts = scanning.column("fact").tolist()
    texts = _Texts(scanning.column("text", "u"), scanning.column("text_offset"))
    top = _members(scanning, lost)
    lost += _losses(facts)
    columns = {name: scanning.column(name, kind) for name, kind in _COLUMNS.items()}
    named = (_argument(scanning, texts, number) for number in range(facts[_ARGUMENTS]))
    arguments = {name: argument for name, argument in named if len(argument.event)}
    return Scan(**columns, args=arguments, texts=texts, top=top, lost=tuple(lost), n_bytes=facts[0])


def _argument(scanning: _Scanning, texts: _Texts, number: int) -> tuple[bytes, Argument]:
    name, event, kind, value = scanning.argument(number)
    return texts[name], Argument(event, kind, value)


def _members(scanning: _Scanning, lost: list[str]) -> dict[str, Any]:
    texts = _Texts(scanning.column("member", "u"), scanning.column("member_offset"))
    top = {}
    for place in range(0, len(texts), 2):
        name = texts[place].decode()
        try:
            top[name] = json.loads(texts[place + 1], strict=False)
        except (ValueError, RecursionError):
            lost.append(f"the file's member {name!r} is not JSON and was skipped")
    return top


def _losses(facts: list[int]) -> list[str]:
    lost = [f"{facts[place]:,} {told}" for place, told in _COUNTED.items() if facts[place]]
    if facts[_DAMAGES]:
        lost.append(
            f"{facts[_DAMAGES]:,} places in the file are not JSON, the first at byte "
            f"{facts[_DAMAGED_AT]:,}. Each event with one was not read. Later events were"
        )
    stopped_at, trailing_at = facts[_STOPPED_AT], facts[_TRAILING_AT]
    if facts[_STOPPED] == _CUT:
        lost.append(f"the file is truncated: it ends at byte {stopped_at:,}, inside the JSON")
    elif facts[_STOPPED] == _MEMORY:
        lost.append(
            f"the rest was not read: the first {stopped_at:,} bytes exceed the memory limit for a "
            "file of this size"
        )
    elif facts[_STOPPED] in (_SYNTAX, _NO_TRACE):
        lost.append(f"the text after byte {stopped_at:,} is not JSON and was not read")
    if trailing_at >= 0:
        lost.append(
            f"the text after byte {trailing_at:,} follows the end of the trace and was ignored"
        )
    return lost
