"""Detection of a run that is given twice. Merging it with itself would double every total.

Two paths are the same run if they are one file, for example through a link, or if the content of
the files is the same: a copy, or an export in another format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.errors import InputError, UsageError
from warpline.schema import TABLES, TableSpec
from warpline.trace.column import ColumnData
from warpline.trace.source import TableSource

# Counting the rows of `collective` reads every range in some formats, and adds no evidence.
_COMPARED = tuple(
    spec
    for spec in TABLES.values()
    if (spec.start is not None and spec.name != "collective") or spec.name == "kernel_metric"
)


def refuse_same_files(files: Sequence[Path]) -> None:
    """Raise UsageError if two paths are the same file. Unreadable paths are ignored."""
    seen: dict[tuple[int, int], Path] = {}
    for file in files:
        with suppress(OSError, ValueError):  # ValueError: a NUL in the name
            status = file.stat()
            first = seen.setdefault((status.st_dev, status.st_ino), file)
            if first is not file:
                raise _given_twice(first, file)


def refuse_same_runs(sources: Sequence[TableSource]) -> None:
    """Raise UsageError if two sources contain the same events of the same processes.

    Process ids are compared first, then row counts, then the events, starting with the smallest
    table. Different runs, and different ranks of a run, usually differ in the process ids, so that
    no events are loaded. Recordings without events are never considered the same run.
    """
    pids = [_pids(source) for source in sources]
    for first, second in combinations(range(len(sources)), 2):
        may_be_same = not (pids[first] and pids[second]) or pids[first] & pids[second]
        if may_be_same and _hold_same_events(sources[first], sources[second]):
            raise _given_twice(sources[first].meta.paths[0], sources[second].meta.paths[0])


def _given_twice(first: Path, second: Path) -> UsageError:
    if str(first) == str(second):
        return UsageError(f"{first} is given twice", hint="give each run once")
    return UsageError(
        f"{first} and {second} are the same run",
        hint=f"give each run once: {first} or {second}",
    )


def _pids(source: TableSource) -> frozenset[int]:
    with suppress(InputError):
        if "process" in source.tables():
            return frozenset(source.load("process", ["pid"])["pid"].values.tolist())
    return frozenset()


def _hold_same_events(first: TableSource, second: TableSource) -> bool:
    has_evidence = False
    try:
        shared = sorted(_shared_tables(first, second), key=lambda spec: first.row_count(spec.name))
    except InputError:
        return False
    moved_ns = _clock_difference_ns(first, second)
    for spec in shared:
        if first.row_count(spec.name):
            with suppress(InputError):  # a damaged table is no evidence
                if not _is_same(first, second, spec, moved_ns):
                    return False
                has_evidence = True
    return has_evidence


def _shared_tables(first: TableSource, second: TableSource) -> Iterator[TableSpec]:
    """Yield the tables that both sources have; none if the row counts of a table differ."""
    both = {*first.tables()} & {*second.tables()}
    shared = [spec for spec in _COMPARED if spec.name in both]
    if all(first.row_count(spec.name) == second.row_count(spec.name) for spec in shared):
        yield from shared


def _clock_difference_ns(first: TableSource, second: TableSource) -> int:
    """Return the offset from times of the second source to times of the first, in ns."""
    origins = first.meta.origin_utc_ns, second.meta.origin_utc_ns
    return 0 if origins[0] is None or origins[1] is None else origins[1] - origins[0]


def _is_same(first: TableSource, second: TableSource, spec: TableSpec, moved_ns: int) -> bool:
    """Return whether a table has the same times, correlation ids and names in both sources.

    Of a table without times, the values are compared. Columns are loaded one at a time, up to the
    first difference.
    """
    value = "value" if spec.start is None else None
    for name in dict.fromkeys((spec.start, spec.end, value, "correlation_id", "name_id")):
        if name is None or not spec.has(name):
            continue
        ours, theirs = (source.load(spec.name, [name]).get(name) for source in (first, second))
        if ours is None or theirs is None:
            continue  # all null, or a format that has no such column
        if name == value:
            is_same = np.array_equal(_known(ours), _known(theirs), equal_nan=True)
        elif name == "name_id":
            is_same = _texts(first, ours) == _texts(second, theirs)
        else:
            moved = moved_ns if spec.column(name).is_time else 0
            is_same = np.array_equal(_sorted(ours), _sorted(theirs) + moved)
        if not is_same:
            return False
    return True


def _sorted(data: ColumnData) -> npt.NDArray[np.int64]:
    return np.sort(_known(data)).astype(np.int64, copy=False)


def _known(data: ColumnData) -> npt.NDArray[Any]:
    return data.values if data.valid is None else data.values[data.valid]


def _texts(source: TableSource, data: ColumnData) -> dict[bytes, int]:
    """Return the number of rows of each name. Text ids differ between files, so names are bytes."""
    rows, counts = np.unique(_known(data), return_counts=True)
    names = map(source.strings.raw, rows.tolist())
    return dict(zip(names, counts.tolist(), strict=True))
