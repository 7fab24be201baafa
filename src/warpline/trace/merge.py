"""Several sources as one: rows one after another, ids renumbered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpline.ops.interval import union
from warpline.schema import TABLES, Column
from warpline.trace.column import ColumnData, concatenate, null_column
from warpline.trace.meta import TraceMeta
from warpline.trace.source import TableSource
from warpline.trace.strings import StringPool
from warpline.units import Unit

I32 = npt.NDArray[np.int32]

# Call chains are keyed by a number of the file's own; each file gets a range of its own.
_CHAIN_SHIFT = 40


def merge(sources: Sequence[TableSource]) -> TableSource:
    """Return one source for several, such as one file per rank.

    Devices with the same UUID become one; everything else of different files stays apart.
    Times are moved to the first file's origin by the UTC anchors; where an anchor is missing
    they stay as they are, and a warning says so.
    """
    return sources[0] if len(sources) == 1 else _MergedSource(sources)


class _MergedSource:
    def __init__(self, sources: Sequence[TableSource]) -> None:
        self._sources = tuple(sources)
        self._pool = StringPool()
        self._string_rows: list[I32] = [np.zeros(0, np.int32) for _ in sources]
        self._shift_ns = _shifts([source.meta for source in sources])
        self._meta = _merge_meta([source.meta for source in sources], self._shift_ns)
        self._devices: tuple[list[I32], list[tuple[int, int]]] | None = None

    @property
    def meta(self) -> TraceMeta:
        return self._meta

    @property
    def strings(self) -> StringPool:
        return self._pool

    def tables(self) -> Sequence[str]:
        recorded = {name for source in self._sources for name in source.tables()}
        return [name for name in TABLES if name in recorded]

    def row_count(self, table: str) -> int:
        if table == "device":
            return len(self._device_rows()[1])
        return sum(_rows(source, table) for source in self._sources)

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        parts = [self._load_part(i, table, columns) for i in range(len(self._sources))]
        if table == "device":
            return _pick_devices(parts, columns, self._device_rows()[1])
        return {name: concatenate([part[name] for part in parts]) for name in columns}

    def _load_part(self, index: int, table: str, names: Sequence[str]) -> dict[str, ColumnData]:
        source = self._sources[index]
        row_count = _rows(source, table)
        loaded = source.load(table, names) if row_count else {}
        return {
            name: self._translate(
                index,
                column,
                loaded[name] if name in loaded else null_column(column, row_count),
            )
            for name in names
            for column in (TABLES[table].column(name),)
        }

    def _translate(self, index: int, column: Column, data: ColumnData) -> ColumnData:
        """Bring one file's values into the merged trace's numbering and clock."""
        if column.ref in ("string", "device"):
            is_text = column.ref == "string"
            rows = self._strings_of(index) if is_text else self._device_rows()[0][index]
            return _mapped(data, rows)
        if column.ref is not None:
            return _shifted(data, sum(_rows(s, column.ref) for s in self._sources[:index]))
        if column.name == "chain_id":
            return _shifted(data, index << _CHAIN_SHIFT)
        return _shifted(data, self._shift_ns[index] if column.unit is Unit.NS else 0)

    def _strings_of(self, index: int) -> I32:
        """Return the merged row of each text of one file; its pool may have grown since."""
        pool, known = self._sources[index].strings, self._string_rows[index]
        if len(known) < len(pool):
            fresh = self._pool.intern_all(pool.raw(row) for row in range(len(known), len(pool)))
            known = self._string_rows[index] = np.concatenate((known, fresh))
        return known

    def _device_rows(self) -> tuple[list[I32], list[tuple[int, int]]]:
        """Return each file's merged device rows, and (file, row) of every merged device."""
        if self._devices is None:
            places: list[tuple[int, int]] = []
            by_uuid: dict[bytes, int] = {}
            mapping = []
            for index, source in enumerate(self._sources):
                rows = []
                for row, uuid in enumerate(_uuids(source)):
                    if uuid is None or uuid not in by_uuid:
                        places.append((index, row))
                        if uuid is not None:
                            by_uuid[uuid] = len(places) - 1
                    rows.append(len(places) - 1 if uuid is None else by_uuid[uuid])
                mapping.append(np.array(rows, np.int32))
            self._devices = mapping, places
        return self._devices


def _rows(source: TableSource, table: str) -> int:
    return source.row_count(table) if table in source.tables() else 0


def _uuids(source: TableSource) -> list[bytes | None]:
    count = _rows(source, "device")
    data = source.load("device", ["uuid_id"]).get("uuid_id") if count else None
    if data is None:
        return [None] * count
    return [None if row is None else source.strings.raw(row) for row in data.to_list()]


def _pick_devices(
    parts: list[dict[str, ColumnData]], columns: Sequence[str], places: list[tuple[int, int]]
) -> dict[str, ColumnData]:
    starts = np.cumsum([0, *(len(part[columns[0]]) for part in parts)])
    rows = np.array([starts[index] + row for index, row in places], np.int64)
    return {name: concatenate([part[name] for part in parts]).take(rows) for name in columns}


def _mapped(data: ColumnData, rows: I32) -> ColumnData:
    if not len(data):
        return data
    if data.valid is None:
        return ColumnData(rows[data.values])
    values = np.zeros_like(data.values)
    values[data.valid] = rows[data.values[data.valid]]
    return ColumnData(values, data.valid)


def _shifted(data: ColumnData, by: int) -> ColumnData:
    if not by:
        return data
    values = data.values + np.asarray(by, data.values.dtype)
    if data.valid is not None:
        values[~data.valid] = 0
    return ColumnData(values, data.valid)


def _shifts(metas: Sequence[TraceMeta]) -> list[int]:
    origins = [meta.origin_utc_ns for meta in metas]
    first = origins[0]
    if first is None or any(origin is None for origin in origins):
        return [0] * len(metas)
    return [origin - first for origin in origins if origin is not None]


def _merge_meta(metas: Sequence[TraceMeta], shifts: Sequence[int]) -> TraceMeta:
    warnings = [text for meta in metas for text in meta.warnings]
    if any(meta.origin_utc_ns is None for meta in metas):
        warnings.append("a file has no UTC anchor: the clocks of the files are not aligned")
    spans = [
        (meta.span_ns[0] + shift, meta.span_ns[1] + shift)
        for meta, shift in zip(metas, shifts, strict=True)
        if meta.span_ns is not None
    ]
    return replace(
        metas[0],
        paths=tuple(path for meta in metas for path in meta.paths),
        format=_joined(meta.format for meta in metas) or "",
        producer=_joined(meta.producer for meta in metas),
        format_version=_joined(meta.format_version for meta in metas),
        command=_joined(meta.command for meta in metas),
        host=_joined(meta.host for meta in metas),
        span_ns=(min(s for s, _ in spans), max(e for _, e in spans)) if spans else None,
        windows_ns=_merge_windows(metas, shifts),
        lost=_summed([meta.lost for meta in metas]),
        unread={name: count or 0 for name, count in _summed([m.unread for m in metas]).items()},
        warnings=tuple(dict.fromkeys(warnings)),
        damaged={name: why for meta in metas for name, why in meta.damaged.items()},
        environment=_first_known([meta.environment for meta in metas]),
        record_cost_ns=_largest([meta.record_cost_ns for meta in metas]),
    )


def _first_known(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the value of each variable in the first file that has it: ranks differ in a few."""
    return {name: value for mapping in reversed(mappings) for name, value in mapping.items()}


def _largest(mappings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest value of each key: what is told of a merged trace is no less than true."""
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return {key: max(mapping.get(key, 0.0) for mapping in mappings) for key in keys}


def _merge_windows(
    metas: Sequence[TraceMeta], shifts: Sequence[int]
) -> tuple[tuple[int, int], ...] | None:
    """Return the time in which at least one of the files recorded, if any rested."""
    if all(meta.windows_ns is None for meta in metas):
        return None
    found: list[tuple[int, int]] = []
    for meta, shift in zip(metas, shifts, strict=True):
        whole = () if meta.span_ns is None else (meta.span_ns,)
        windows = whole if meta.windows_ns is None else meta.windows_ns
        found += [(start + shift, end + shift) for start, end in windows]
    times = np.array(found, np.int64).reshape(-1, 2)
    start, end = union(times[:, 0], times[:, 1])
    return tuple(zip(start.tolist(), end.tolist(), strict=True))


def _joined(texts: Iterable[str | None]) -> str | None:
    known = dict.fromkeys(text for text in texts if text)
    return ", ".join(known) or None


def _summed(counts: Sequence[Mapping[str, int | None]]) -> dict[str, int | None]:
    total: dict[str, int | None] = {}
    for count in counts:
        for name, value in count.items():
            before = total.get(name, 0)
            total[name] = None if value is None or before is None else before + value
    return total
