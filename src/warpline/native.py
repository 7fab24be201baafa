"""The loader of libwarpline_core, the native hot loops.

The library is optional. Without it, `core()` is None, and callers use numpy or the standard library
with the same results. Only finishing a session requires it. Two environment variables:
``WARPLINE_NATIVE=0`` disables the library, ``WARPLINE_CORE=/path/to/libwarpline_core.so`` selects
another build.

`DECLARATIONS`, `SqliteColumn` and the constants duplicate ``native/core/include/warpline_core.h``.
A test compares them. Pointers are passed as integers, so that this module does not need numpy.
ctypes releases the GIL during a call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from warpline.frozen import frozen

ABI_VERSION = 12
LIBRARY_NAME = "libwarpline_core.so"

OK = 0
IO = 1
CORRUPT = 2
UNSUPPORTED = 3
CHANGED = 4
NO_MEMORY = 5
BAD_ARGUMENT = 6
TOO_MANY = 7

SWEEP_KERNELS = 0
SWEEP_PROJECTIONS = 1

KIND_INT64 = 0
KIND_FLOAT64 = 1
KIND_TEXT = 2
KIND_BLOB = 3
KIND_INT64_CODES = 4
KIND_TEXT_CODES = 5

MOST_DISTINCT = 65536

ROWID = -1

CELLS_INT64 = 0
CELLS_INT32 = 1
CELLS_TEXTS = 2
CELLS_LINES = 3


# ``wl_decompress``: kind, content, bytes, out, out_bytes -> 0 if that is what it expands to.
Decompress = ctypes.CFUNCTYPE(c_int32, c_int32, c_void_p, c_int64, c_void_p, c_int64)


class SqliteColumn(ctypes.Structure):
    """``wl_sqlite_column``: a column to read, its output buffers, and counts of invalid values."""

    _fields_ = (
        ("values", c_void_p),
        ("valid", c_void_p),
        ("invalid", c_int64),
        ("mismatched", c_int64),
        ("short_rows", c_int64),
        ("position", c_int32),
        ("kind", c_int32),
        ("is_real", c_int32),
        ("distinct", c_void_p),
        ("distinct_bytes", c_void_p),
        ("distinct_bytes_room", c_int64),
        ("distinct_count", c_int64),
    )

    values: int
    valid: int
    invalid: int
    mismatched: int
    short_rows: int
    position: int
    kind: int
    is_real: int
    distinct: int
    distinct_bytes: int
    distinct_bytes_room: int
    distinct_count: int


class Launches(ctypes.Structure):
    """``wl_launches``: ranges and calls of threads."""

    _fields_ = (
        ("ranges", c_int64),
        ("range_start", c_void_p),
        ("range_end", c_void_p),
        ("range_thread", c_void_p),
        ("calls", c_int64),
        ("call_start", c_void_p),
        ("call_end", c_void_p),
        ("call_thread", c_void_p),
        ("threads", c_int32),
    )


class OperationRows(ctypes.Structure):
    """``wl_operation_rows``: kernels, copies or memsets."""

    _fields_ = (
        ("count", c_int64),
        ("start", c_void_p),
        ("end", c_void_p),
        ("correlation", c_void_p),
        ("known", c_void_p),
        ("process", c_void_p),
        ("name", c_void_p),
    )


class RangeRows(ctypes.Structure):
    """``wl_range_rows``: ranges in order of their starts."""

    _fields_ = (
        ("count", c_int64),
        ("start", c_void_p),
        ("end", c_void_p),
        ("id", c_void_p),
        ("thread", c_void_p),
        ("group", c_void_p),
    )


class CallRows(ctypes.Structure):
    """``wl_call_rows``: calls in order of their starts."""

    _fields_ = (
        ("count", c_int64),
        ("start", c_void_p),
        ("end", c_void_p),
        ("correlation", c_void_p),
        ("known", c_void_p),
        ("thread", c_void_p),
        ("process", c_void_p),
    )


class CallWork(ctypes.Structure):
    """``wl_call_work``: what each call launched."""

    _fields_ = (("first", c_void_p), ("last", c_void_p), ("operations", c_void_p))


class RangeWork(ctypes.Structure):
    """``wl_range_work``: the same for each range, filled by the library."""

    _fields_ = (
        ("first", c_void_p),
        ("last", c_void_p),
        ("operations", c_void_p),
        ("launches", c_void_p),
    )


class Operations(ctypes.Structure):
    """``wl_operations``: operations of several devices."""

    _fields_ = (
        ("count", c_int64),
        ("start", c_void_p),
        ("end", c_void_p),
        ("device", c_void_p),
    )


class Sets(ctypes.Structure):
    """``wl_sets``: sets of operations."""

    _fields_ = (
        ("intervals", c_int64),
        ("first", c_void_p),
        ("last", c_void_p),
        ("set", c_void_p),
        ("sets", c_int32),
        ("members", c_int64),
        ("member", c_void_p),
    )


class Coverage(ctypes.Structure):
    """``wl_coverage``: the times of each set, filled by the library."""

    _fields_ = (
        ("busy", c_void_p),
        ("span", c_void_p),
        ("first", c_void_p),
        ("last", c_void_p),
    )


class Spans(ctypes.Structure):
    """``wl_spans``: times, each with the rows that may overlap it."""

    _fields_ = (
        ("count", c_int64),
        ("start", c_void_p),
        ("end", c_void_p),
        ("first", c_void_p),
        ("last", c_void_p),
        ("slot", c_void_p),
    )


class Cells(ctypes.Structure):
    """``wl_cells``: the cells of one column of a table to write."""

    _fields_ = (
        ("values", c_void_p),
        ("valid", c_void_p),
        ("bytes", c_void_p),
        ("offsets", c_void_p),
        ("texts", c_int64),
        ("kind", c_int32),
    )


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
    "wl_sqlite_table_border": (c_int64, (c_void_p, c_int64)),
    "wl_sqlite_table_read": (
        c_int32,
        (c_void_p, c_int64, c_int64, POINTER(SqliteColumn), c_int32, c_int32, *_MESSAGE),
    ),
    "wl_sqlite_table_bytes": (
        c_int32,
        (
            *(c_void_p, c_int64, c_int64, POINTER(SqliteColumn), c_void_p, c_int64, c_int32),
            *_MESSAGE,
        ),
    ),
    "wl_factorize_i64": (c_int64, (c_void_p, c_int64, c_void_p, c_void_p, c_int64)),
    "wl_factorize_text": (
        c_int64,
        (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64),
    ),
    "wl_crc32": (c_int64, (c_void_p, c_int64, c_uint32, c_int32)),
    "wl_format_i64": (c_int64, (c_void_p, c_int64, c_void_p)),
    "wl_format_rows": (
        c_int64,
        (POINTER(Cells), c_int32, c_int64, c_uint8, c_void_p, c_int64),
    ),
    "wl_id_paths": (c_int64, (*(c_void_p,) * 4, c_int64, c_void_p, c_void_p)),
    "wl_group_order_i64": (c_int32, (c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p)),
    "wl_covered_i64": (c_int32, (c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p)),
    "wl_union_i64": (c_int64, (*(c_void_p,) * 3, c_int64, *(c_void_p,) * 2)),
    "wl_tile_i64": (c_int64, (*(c_void_p,) * 3, c_int64, *(c_void_p,) * 3)),
    "wl_sum_cuts_i64": (
        c_int32,
        (POINTER(Spans), *(c_void_p,) * 3, c_int64, c_int64, c_int64, c_void_p),
    ),
    "wl_nest_i64": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p),
    ),
    "wl_enclosing_i64": (
        c_int32,
        (*(c_void_p,) * 2, c_int64, *(c_void_p,) * 3, c_int64, c_int32, c_void_p),
    ),
    "wl_lanes_i64": (
        c_int32,
        (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_int32, c_void_p),
    ),
    "wl_coverage_i64": (c_int32, (POINTER(Operations), POINTER(Sets), POINTER(Coverage))),
    "wl_group_squares_i64": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p, c_void_p)),
    "wl_range_sweep_open": (c_int32, (c_int32, c_int64, c_int32, c_int32, c_void_p)),
    "wl_range_sweep_close": (None, (c_void_p,)),
    "wl_range_sweep_operations": (c_int32, (c_void_p, POINTER(OperationRows))),
    "wl_range_sweep_ranges": (c_int32, (c_void_p, POINTER(RangeRows))),
    "wl_range_sweep_calls": (c_int32, (c_void_p, POINTER(CallRows))),
    "wl_range_sweep_finish": (c_int64, (c_void_p,)),
    "wl_range_sweep_groups": (c_int32, (c_void_p, c_void_p)),
    "wl_range_sweep_values": (c_int32, (c_void_p, c_int64, c_int64, c_void_p)),
    "wl_range_work_i64": (
        c_int32,
        (POINTER(Launches), POINTER(CallWork), POINTER(RangeWork)),
    ),
    "wl_replay_times": (c_int32, (c_int64, *(c_void_p,) * 7)),
    "wl_raw_open": (c_int32, (c_void_p, Decompress, *_MESSAGE)),
    "wl_raw_close": (None, (c_void_p,)),
    "wl_raw_add_log": (c_int32, (c_void_p, c_char_p, c_uint64, c_int32, *_MESSAGE)),
    "wl_raw_decode": (c_int64, (c_void_p, c_int64, *_MESSAGE)),
    "wl_raw_end_process": (c_int32, (c_void_p, c_int64, c_int64, *_MESSAGE)),
    "wl_raw_seal": (c_int32, (c_void_p, c_int64, c_int64, *_MESSAGE)),
    "wl_raw_rows": (c_int64, (c_void_p, c_char_p)),
    "wl_raw_column": (c_int64, (c_void_p, c_char_p, c_int64, c_int64, c_void_p, c_void_p)),
    "wl_raw_intern": (c_int64, (c_void_p, c_char_p, c_int64)),
    "wl_raw_trim": (c_int64, (c_void_p, c_int64, c_int64, c_int64, c_int32, *_MESSAGE)),
    "wl_follow_open": (c_int32, (c_void_p, c_int32, *_MESSAGE)),
    "wl_follow_close": (None, (c_void_p,)),
    "wl_follow_add_log": (c_int32, (c_void_p, c_char_p, c_int32, *_MESSAGE)),
    "wl_follow_close_log": (c_int32, (c_void_p, c_int64, *_MESSAGE)),
    "wl_follow_read": (c_int32, (c_void_p, c_int64, c_int64, c_void_p, c_void_p, *_MESSAGE)),
    "wl_follow_devices": (c_int32, (c_void_p, c_void_p, c_void_p, *_MESSAGE)),
    "wl_follow_measure": (
        c_int32,
        (c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_void_p, *_MESSAGE),
    ),
    "wl_follow_copy": (c_int64, (c_void_p, c_int32, c_int64, c_int32, c_void_p, *_MESSAGE)),
    "wl_json_open": (
        c_int32,
        (c_char_p, c_int64, c_int32, c_int64, c_int64, c_void_p, *_MESSAGE),
    ),
    "wl_json_close": (None, (c_void_p,)),
    "wl_json_feed": (c_int32, (c_void_p, c_void_p, c_int64, c_void_p, *_MESSAGE)),
    "wl_json_finish": (c_int32, (c_void_p, *_MESSAGE)),
    "wl_json_column": (c_int64, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "wl_json_argument": (c_int64, (c_void_p, c_int64, *(c_void_p,) * 5)),
}


class Core:
    """The functions of a loaded library, under their C names. See warpline_core.h."""

    wl_abi_version: Callable[[], int]
    wl_sqlite_open: Callable[..., int]
    wl_sqlite_close: Callable[[c_void_p], None]
    wl_sqlite_table_open: Callable[..., int]
    wl_sqlite_table_close: Callable[[c_void_p], None]
    # table, row -> row
    wl_sqlite_table_border: Callable[[c_void_p, int], int]
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
    # columns, n_columns, count, separator, text, room -> bytes or -status
    wl_format_rows: Callable[..., int]
    # ids, parent, has_parent, rows, n, offsets, text -> bytes or -status
    wl_id_paths: Callable[..., int]
    # codes, values, n, n_groups, starts, sorted_values -> status
    wl_group_order_i64: Callable[[int, int, int, int, int, int], int]
    # start, end, groups, n, n_groups, covered -> status
    wl_covered_i64: Callable[[int, int, int, int, int, int], int]
    # start, end, chosen or None, n, union_start, union_end -> number of intervals or -status
    wl_union_i64: Callable[..., int]
    # start, end, level, n, piece_start, piece_end, owner -> number of pieces or -status
    wl_tile_i64: Callable[..., int]
    # spans, start, end, code or None, n, slots, codes, sums -> status
    wl_sum_cuts_i64: Callable[..., int]
    # start, end, codes or None, n, n_groups, parent, depth, crosses -> status
    wl_nest_i64: Callable[[int, int, int | None, int, int, int, int, int], int]
    # points, point_codes or None, m, start, end, codes or None, n, n_groups, row -> status
    wl_enclosing_i64: Callable[..., int]
    # start, end, codes, n, n_groups, most, lane -> status
    wl_lanes_i64: Callable[[int, int, int, int, int, int, int], int]
    wl_coverage_i64: Callable[..., int]
    # sorted_values, starts, n_groups, centre, sums -> status
    wl_group_squares_i64: Callable[[int, int, int, int, int], int]
    wl_range_sweep_open: Callable[..., int]
    wl_range_sweep_close: Callable[[c_void_p], None]
    wl_range_sweep_operations: Callable[..., int]
    wl_range_sweep_ranges: Callable[..., int]
    wl_range_sweep_calls: Callable[..., int]
    # sweep -> number of groups or -status
    wl_range_sweep_finish: Callable[[c_void_p], int]
    # sweep, columns -> status
    wl_range_sweep_groups: Callable[[c_void_p, int], int]
    # sweep, first, last, values -> status
    wl_range_sweep_values: Callable[[c_void_p, int, int, int], int]
    wl_range_work_i64: Callable[..., int]
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
    # session, text, bytes -> text id or -status
    wl_raw_intern: Callable[[c_void_p, bytes, int], int]
    wl_raw_trim: Callable[..., int]
    wl_follow_open: Callable[..., int]
    wl_follow_close: Callable[[c_void_p], None]
    wl_follow_add_log: Callable[..., int]
    wl_follow_close_log: Callable[..., int]
    wl_follow_read: Callable[..., int]
    wl_follow_devices: Callable[..., int]
    wl_follow_measure: Callable[..., int]
    # follower, tail, log, file, facts -> end or -status
    wl_follow_copy: Callable[..., int]
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


@frozen
class NativeStatus:
    """Status of the native core, as `warpline doctor` reports it.

    Attributes:
        available: Whether `core()` returns it.
        path: The library file, or None if there is none.
        abi: ABI version of the file, or None if it is unknown.
        reason: Why it is not available; empty if it is.
    """

    available: bool
    path: Path | None
    abi: int | None
    reason: str


def core() -> Core | None:
    """Return the native core, or None if it is missing or disabled. It is loaded once."""
    return _load()[0]


def status() -> NativeStatus:
    """Return whether the native core is in use, and if not, why."""
    return _load()[1]


@cache
def _load() -> tuple[Core | None, NativeStatus]:
    if os.environ.get("WARPLINE_NATIVE", "").lower() in {"0", "false", "no", "off"}:
        return _absent("disabled by WARPLINE_NATIVE")
    named = os.environ.get("WARPLINE_CORE")
    paths = [Path(named)] if named else list(_installed())
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        absent = f"WARPLINE_CORE: no such file: {named}" if named else "not built"
        return _absent(absent)
    try:
        library = ctypes.CDLL(str(path))
        library.wl_abi_version.restype = c_int32
        abi = int(library.wl_abi_version())
        if abi != ABI_VERSION:
            reason = f"has ABI version {abi}; this version of Warpline requires {ABI_VERSION}"
            return _absent(reason, path, abi)
        return Core(library), NativeStatus(available=True, path=path, abi=abi, reason="")
    except (OSError, AttributeError) as error:  # not a library, or another one
        return _absent(f"cannot be loaded: {error}", path)


def _absent(
    reason: str, path: Path | None = None, abi: int | None = None
) -> tuple[None, NativeStatus]:
    return None, NativeStatus(available=False, path=path, abi=abi, reason=reason)


def _installed() -> Iterator[Path]:
    # An editable installation has two roots: the sources and the build directory.
    for root in sys.modules[__package__].__path__:
        yield Path(root) / "_native" / LIBRARY_NAME
