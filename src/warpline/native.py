"""The loader of libwarpline_core, the native hot loops.

The library is optional: `core()` is None without it, and every caller has a path in numpy or the
standard library that gives the same result; only finishing a session needs it. Two environment
variables: ``WARPLINE_NATIVE=0`` leaves the library alone,
``WARPLINE_CORE=/path/to/libwarpline_core.so`` names another build of it.

`DECLARATIONS`, `SqliteColumn` and the constants repeat ``native/core/include/warpline_core.h``; a
test compares them. Pointers are passed as integers, so that this module needs no numpy. ctypes
releases the interpreter lock during a call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ABI_VERSION = 4
LIBRARY_NAME = "libwarpline_core.so"

OK = 0
IO = 1
CORRUPT = 2
UNSUPPORTED = 3
CHANGED = 4
NO_MEMORY = 5
BAD_ARGUMENT = 6
TOO_MANY = 7

KIND_INT64 = 0
KIND_FLOAT64 = 1
KIND_TEXT = 2
KIND_BLOB = 3

ROWID = -1


class SqliteColumn(ctypes.Structure):
    """``wl_sqlite_column``: one column to read, where it goes, and what was met."""

    _fields_ = (
        ("values", c_void_p),
        ("valid", c_void_p),
        ("invalid", c_int64),
        ("mismatched", c_int64),
        ("short_rows", c_int64),
        ("position", c_int32),
        ("kind", c_int32),
        ("is_real", c_int32),
    )

    values: int
    valid: int
    invalid: int
    mismatched: int
    short_rows: int
    position: int
    kind: int
    is_real: int


_MESSAGE = (c_char_p, c_int64)

# Function -> (result, arguments). Pointers to data are c_void_p: pass `array.ctypes.data`.
DECLARATIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "wl_abi_version": (c_int32, ()),
    "wl_sqlite_open": (c_int32, (c_char_p, POINTER(c_void_p), *_MESSAGE)),
    "wl_sqlite_close": (None, (c_void_p,)),
    "wl_sqlite_table_open": (
        c_int32,
        (c_void_p, c_uint32, c_int32, POINTER(c_void_p), POINTER(c_int64), *_MESSAGE),
    ),
    "wl_sqlite_table_close": (None, (c_void_p,)),
    "wl_sqlite_table_read": (
        c_int32,
        (c_void_p, POINTER(SqliteColumn), c_int32, c_int32, *_MESSAGE),
    ),
    "wl_sqlite_table_bytes": (
        c_int32,
        (c_void_p, POINTER(SqliteColumn), c_void_p, c_int64, c_int32, *_MESSAGE),
    ),
    "wl_factorize_i64": (c_int64, (c_void_p, c_int64, c_void_p, c_void_p, c_int64)),
    "wl_factorize_text": (
        c_int64,
        (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64),
    ),
    "wl_crc32": (c_int64, (c_void_p, c_int64, c_uint32, c_int32)),
    "wl_format_i64": (c_int64, (c_void_p, c_int64, c_void_p)),
    "wl_group_order_i64": (c_int32, (c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p)),
    "wl_nest_i64": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p),
    ),
    "wl_replay_times": (c_int32, (c_int64, *(c_void_p,) * 7)),
    "wl_raw_open": (c_int32, (c_void_p, *_MESSAGE)),
    "wl_raw_close": (None, (c_void_p,)),
    "wl_raw_add_log": (c_int32, (c_void_p, c_char_p, c_int32, *_MESSAGE)),
    "wl_raw_decode": (c_int64, (c_void_p, c_int64, *_MESSAGE)),
    "wl_raw_end_process": (c_int32, (c_void_p, c_int64, c_int64, *_MESSAGE)),
    "wl_raw_seal": (c_int32, (c_void_p, c_int64, c_int64, *_MESSAGE)),
    "wl_raw_rows": (c_int64, (c_void_p, c_char_p)),
    "wl_raw_column": (c_int64, (c_void_p, c_char_p, c_int64, c_int64, c_void_p, c_void_p)),
    "wl_raw_intern": (c_int64, (c_void_p, c_char_p, c_int64)),
    "wl_json_open": (
        c_int32,
        (c_char_p, c_int64, c_int32, c_int64, c_void_p, *_MESSAGE),
    ),
    "wl_json_close": (None, (c_void_p,)),
    "wl_json_feed": (c_int32, (c_void_p, c_void_p, c_int64, c_void_p, *_MESSAGE)),
    "wl_json_finish": (c_int32, (c_void_p, *_MESSAGE)),
    "wl_json_column": (c_int64, (c_void_p, c_char_p, c_void_p)),
    "wl_json_argument": (c_int64, (c_void_p, c_int64, *(c_void_p,) * 4)),
}


class Core:
    """The functions of a loaded library, under their C names; warpline_core.h documents them."""

    wl_abi_version: Callable[[], int]
    wl_sqlite_open: Callable[..., int]
    wl_sqlite_close: Callable[[c_void_p], None]
    wl_sqlite_table_open: Callable[..., int]
    wl_sqlite_table_close: Callable[[c_void_p], None]
    wl_sqlite_table_read: Callable[..., int]
    wl_sqlite_table_bytes: Callable[..., int]
    # keys, n, codes, uniques, max_uniques -> number of uniques or -status
    wl_factorize_i64: Callable[[int, int, int, int, int], int]
    # bytes, offsets, valid, n, codes, first_rows, max_uniques -> number of uniques or -status
    wl_factorize_text: Callable[[int, int, int, int, int, int, int], int]
    # bytes, count, crc, threads -> crc or -status
    wl_crc32: Callable[[int, int, int, int], int]
    # values, n, text -> bytes written or -status
    wl_format_i64: Callable[[int, int, int], int]
    # codes, values, n, n_groups, starts, sorted_values -> status
    wl_group_order_i64: Callable[[int, int, int, int, int, int], int]
    # start, end, codes or None, n, n_groups, parent, depth -> status
    wl_nest_i64: Callable[[int, int, int | None, int, int, int, int], int]
    # n, first, source, from_end, weight, length, earliest, time -> status
    wl_replay_times: Callable[..., int]
    wl_raw_open: Callable[..., int]
    wl_raw_close: Callable[[c_void_p], None]
    wl_raw_add_log: Callable[..., int]
    wl_raw_decode: Callable[..., int]
    wl_raw_end_process: Callable[..., int]
    wl_raw_seal: Callable[..., int]
    # session, table -> rows or -status
    wl_raw_rows: Callable[[c_void_p, bytes], int]
    # session, column, first, count, values, valid -> nulls or -status
    wl_raw_column: Callable[..., int]
    # session, text, bytes -> its number or -status
    wl_raw_intern: Callable[[c_void_p, bytes, int], int]
    wl_json_open: Callable[..., int]
    wl_json_close: Callable[[c_void_p], None]
    wl_json_feed: Callable[..., int]
    wl_json_finish: Callable[..., int]
    # scan, column, values -> count or -status
    wl_json_column: Callable[..., int]
    # scan, argument, name, events, kinds, values -> count or -status
    wl_json_argument: Callable[..., int]

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in DECLARATIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)


@dataclass(frozen=True)
class NativeStatus:
    """What `warpline doctor` says about the native core.

    Attributes:
        available: Whether `core()` gives it.
        path: The file that was found, or None.
        abi: The interface version that the file has, or None if it could not be asked.
        reason: Why it is not available; empty if it is.
    """

    available: bool
    path: Path | None
    abi: int | None
    reason: str


def core() -> Core | None:
    """Return the native core, or None where it is absent or switched off. Loaded once."""
    return _load()[0]


def status() -> NativeStatus:
    """Say whether the native core is in use, and if not, why."""
    return _load()[1]


@cache
def _load() -> tuple[Core | None, NativeStatus]:
    if os.environ.get("WARPLINE_NATIVE", "").lower() in {"0", "false", "no", "off"}:
        return _absent("switched off by WARPLINE_NATIVE")
    named = os.environ.get("WARPLINE_CORE")
    paths = [Path(named)] if named else list(_installed())
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        absent = f"WARPLINE_CORE names no file: {named}" if named else "it was not built"
        return _absent(absent)
    try:
        library = ctypes.CDLL(str(path))
        library.wl_abi_version.restype = c_int32
        abi = int(library.wl_abi_version())
        if abi != ABI_VERSION:
            reason = f"its interface has version {abi}, this Warpline needs {ABI_VERSION}"
            return _absent(reason, path, abi)
        return Core(library), NativeStatus(available=True, path=path, abi=abi, reason="")
    except (OSError, AttributeError) as error:  # not a library, or not this one
        return _absent(f"cannot be loaded: {error}", path)


def _absent(
    reason: str, path: Path | None = None, abi: int | None = None
) -> tuple[None, NativeStatus]:
    return None, NativeStatus(available=False, path=path, abi=abi, reason=reason)


def _installed() -> Iterator[Path]:
    # An editable installation has two roots: the sources, and the folder with what was built.
    for root in sys.modules[__package__].__path__:
        yield Path(root) / "_native" / LIBRARY_NAME
