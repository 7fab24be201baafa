"""Several sources merged into one: rows are concatenated and ids renumbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from warpline.estimate import Estimate
from warpline.ops.interval import union
from warpline.schema import TABLES, Column
from warpline.trace.column import ColumnData, concatenate, null_column
from warpline.trace.meta import ProcessEnd, TraceMeta
from warpline.trace.source import TableSource
from warpline.trace.strings import StringPool
from warpline.units import format_ns

I32 = npt.NDArray[np.int32]

_COUNTERS = "profiled_kernel"
_MOST_GAP_NS = 1_000_000_000  # between ranks of one run that do not record at the same time
# Environment variables with the rank of a process, the most general launcher first.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True)
class Alignment:
    """Clock corrections in addition to the UTC anchors of the files.

    Attributes:
        moves_ns: Additional shift of all times, by the index of the file in the paths.
        notes: Sentences for the user, shown as warnings.
        is_complete: Whether the corrections align all files, even files without an anchor.
    """

    moves_ns: Mapping[int, int]
    notes: tuple[str, ...]
    is_complete: bool


def merge(sources: Sequence[TableSource], alignment: Alignment | None = None) -> TableSource:
    """Return one source for several, such as one file per rank.

    Devices with the same UUID are merged. Everything else of different files stays separate.
    UTC anchors shift times to the first file's origin. If an anchor is missing, no file is shifted,
    and there is a warning. An alignment adds further shifts. A process without a recorded rank gets
    the rank in its file's environment, if there is one.
    """
    return sources[0] if len(sources) == 1 else _MergedSource(sources, alignment)


class _MergedSource:
    def __init__(self, sources: Sequence[TableSource], alignment: Alignment | None) -> None:
        self._sources = tuple(sources)
        self._pool = StringPool()
        self._string_rows: list[I32] = [np.zeros(0, np.int32) for _ in sources]
        metas = [source.meta for source in sources]
        # Counters are collected in a run of their own: they need not be aligned with a timeline.
        timelines = [_COUNTERS not in source.tables() for source in sources]
        self._shift_ns = _shifts(metas, alignment, timelines)
        merged = _merge_meta(metas, self._shift_ns, alignment, timelines)
        self._meta = replace(merged, file_of_process=_files_of_processes(sources))
        self._devices: tuple[list[I32], list[tuple[int, int]]] | None = None
        self._starts: dict[str, list[int]] = {}

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
        return self._starts_of(table)[-1]

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        parts = [self._load_part(i, table, columns) for i in range(len(self._sources))]
        if table == "device":
            return _pick_devices(parts, columns, self._device_rows()[1])
        return {name: concatenate([part[name] for part in parts]) for name in columns}

    def _load_part(self, index: int, table: str, names: Sequence[str]) -> dict[str, ColumnData]:
        source = self._sources[index]
        row_count = _rows(source, table)
        loaded = source.load(table, names) if row_count else {}
        if table == "process" and row_count and "rank" in names:
            loaded = {**loaded, "rank": _ranks(source, loaded.get("rank"), row_count)}
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
        """Convert the values of one file to the row numbers and the clock of the merged trace."""
        if column.ref in ("string", "device"):
            is_text = column.ref == "string"
            rows = self._strings_of(index) if is_text else self._device_rows()[0][index]
            return _mapped(data, rows)
        if column.ref is not None:
            return _shifted(data, self._starts_of(column.ref)[index])
        return _shifted(data, self._shift_ns[index] if column.is_time else 0)

    def _starts_of(self, table: str) -> list[int]:
        """Return the merged row at which the rows of each file start, and at the end, their sum."""
        if table not in self._starts:
            counts = (_rows(source, table) for source in self._sources)
            self._starts[table] = [*accumulate(counts, initial=0)]
        return self._starts[table]

    def _strings_of(self, index: int) -> I32:
        """Return the merged row of each text of one file, including texts added since last time."""
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


def _files_of_processes(sources: Sequence[TableSource]) -> tuple[int, ...]:
    """Return the file of each process, as an index into all paths."""
    first = _first_paths([source.meta for source in sources])
    counts = [_rows(source, "process") for source in sources]
    return tuple(file for file, count in zip(first, counts, strict=True) for _ in range(count))


def _ranks(source: TableSource, recorded: ColumnData | None, row_count: int) -> ColumnData:
    """Return the ranks of a file's processes; missing ranks come from its environment."""
    column = TABLES["process"].column("rank")
    data = null_column(column, row_count) if recorded is None else recorded
    texts = (source.meta.environment.get(name, "") for name in _RANK_VARIABLES)
    rank = next((int(text) for text in texts if re.fullmatch(r"[0-9]{1,9}", text)), None)
    return data if rank is None else ColumnData(data.filled(rank))


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


def _shifts(
    metas: Sequence[TraceMeta], alignment: Alignment | None, timelines: Sequence[bool]
) -> list[int]:
    """Return the shift of the times of each file, in ns."""
    anchors = [meta.origin_utc_ns for meta in metas]
    first = next((anchor for anchor in anchors if anchor is not None), 0)
    shifts = [0] * len(metas)
    if not any(a is None and is_one for a, is_one in zip(anchors, timelines, strict=True)):
        shifts = [0 if anchor is None else anchor - first for anchor in anchors]
    moves = {} if alignment is None else alignment.moves_ns
    return [
        shift + moves.get(file, 0) for shift, file in zip(shifts, _first_paths(metas), strict=True)
    ]


def _first_paths(metas: Sequence[TraceMeta]) -> list[int]:
    """Return the index of each source's first path among all paths."""
    counts = [len(meta.paths) for meta in metas]
    return [sum(counts[:place]) for place in range(len(counts))]


def _merge_meta(
    metas: Sequence[TraceMeta],
    shifts: Sequence[int],
    alignment: Alignment | None,
    timelines: Sequence[bool],
) -> TraceMeta:
    warnings = [text for meta in metas for text in meta.warnings]
    warnings += () if alignment is None else alignment.notes
    is_aligned = alignment is not None and alignment.is_complete
    aligned = [meta for meta, is_one in zip(metas, timelines, strict=True) if is_one]
    if any(meta.origin_utc_ns is None for meta in aligned) and not is_aligned and len(aligned) > 1:
        warnings.append("clocks of the recordings are not aligned: one has no UTC anchor")
    spans = [
        (meta.span_ns[0] + shift, meta.span_ns[1] + shift)
        for meta, shift in zip(metas, shifts, strict=True)
        if meta.span_ns is not None
    ]
    if len(spans) == len(metas) and all(meta.origin_utc_ns is not None for meta in metas):
        of_timelines = [span for span, is_one in zip(spans, timelines, strict=True) if is_one]
        warnings += _gaps([meta.paths[0].name for meta in aligned if meta.paths], of_timelines)
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
        ends=_merge_ends(metas, shifts),
        lost=_summed([meta.lost for meta in metas]),
        unread={name: count or 0 for name, count in _summed([m.unread for m in metas]).items()},
        warnings=tuple(dict.fromkeys(warnings)),
        unrecorded=tuple(dict.fromkeys(cause for meta in metas for cause in meta.unrecorded)),
        damaged={name: why for meta in metas for name, why in meta.damaged.items()},
        environment=_first_known([meta.environment for meta in metas]),
        software=_first_known([meta.software for meta in metas]),
        record_cost_ns=_largest([meta.record_cost_ns for meta in metas]),
        call_cost_ns=_widest([meta.call_cost_ns for meta in metas]),
        operator_cost_ns=_widest([meta.operator_cost_ns for meta in metas]),
    )


def _gaps(names: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return a warning about files that are hardly of one run: all of one end before all others."""
    if len(names) < len(spans) or not spans:
        return []
    order = sorted(range(len(spans)), key=lambda file: spans[file])
    last = order[0]  # the file that ends last, of those so far
    for file in order[1:]:
        gap_ns = spans[file][0] - spans[last][1]
        if gap_ns > _MOST_GAP_NS:
            gap = f"{names[last]} ends {format_ns(gap_ns)} before {names[file]} begins"
            use = "use warpline compare or warpline report --side-by-side"
            return [f"{gap}. If they are two runs, not ranks of one, {use}"]
        last = max(last, file, key=lambda one: spans[one][1])
    return []


def _first_known(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the value of each variable in the first file that has it. Few differ between ranks."""
    return {name: value for mapping in reversed(mappings) for name, value in mapping.items()}


def _largest(mappings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest value of each key, so that a merged trace never underestimates."""
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return {key: max(mapping.get(key, 0.0) for mapping in mappings) for key in keys}


def _widest(costs: Sequence[Estimate | None]) -> Estimate | None:
    """Return an estimate that holds for every file; None if one is unknown."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    central = sum(cost.central for cost in known) / len(known)
    return Estimate(min(cost.low for cost in known), central, max(cost.high for cost in known))


def _merge_windows(
    metas: Sequence[TraceMeta], shifts: Sequence[int]
) -> tuple[tuple[int, int], ...] | None:
    """Return the time in which at least one file recorded; None if all recorded without pauses."""
    if all(meta.windows_ns is None for meta in metas):
        return None
    recorded: list[tuple[int, int]] = []
    for meta, shift in zip(metas, shifts, strict=True):
        whole = () if meta.span_ns is None else (meta.span_ns,)
        windows = whole if meta.windows_ns is None else meta.windows_ns
        recorded += [(start + shift, end + shift) for start, end in windows]
    times = np.array(recorded, np.int64).reshape(-1, 2)
    start, end = union(times[:, 0], times[:, 1])
    return tuple(zip(start.tolist(), end.tolist(), strict=True))


def _merge_ends(metas: Sequence[TraceMeta], shifts: Sequence[int]) -> tuple[ProcessEnd, ...]:
    """Return how the processes of all files ended, in order of time."""

    def moved(time_ns: int | None, shift: int) -> int | None:
        return None if time_ns is None else time_ns + shift

    ends = [
        replace(
            end,
            ended_ns=end.ended_ns + shift,
            opened_ns=moved(end.opened_ns, shift),
            last_event_ns=moved(end.last_event_ns, shift),
        )
        for meta, shift in zip(metas, shifts, strict=True)
        for end in meta.ends
    ]
    return tuple(sorted(ends, key=lambda end: end.ended_ns))


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
