"""GENERIC_EVENTS: samples of metrics in exports without GPU_METRICS; and what is not read.

Until 2023, nsys exported samples of GPU metrics as generic events, one for all metrics of a GPU at
a time. Then it exported them twice, and now only as GPU_METRICS. Values are in the JSON of an
event, or in rows of GENERIC_EVENT_DATA, named by the fields of the event's type.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.lazy import lazy
from warpline.ops.arrays import F64, I32, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.identity import Identities, gpu_of_type
from warpline.readers.nsys.names import Names

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")

EVENTS, DATA = "GENERIC_EVENTS", "GENERIC_EVENT_DATA"
_OF_GPU, _OF_CHIP = "GpuMetrics", "SocMetrics"
_OTHER_TABLES = ("GPU_METRICS", "SOC_METRICS")  # of the same samples
_INTS, _FLOATS = ("intVal", "uintVal"), ("floatVal", "doubleVal")


class Samples(NamedTuple):
    """Samples, each of one metric.

    Attributes:
        time_ns: Shape (n,).
        series: Shape (n,), places in `keys`.
        values: Shape (n,).
        keys: Type and metric of each series.
    """

    time_ns: I64
    series: I32
    values: F64
    keys: list[tuple[int, str]]


class GenericEvents:
    """The generic events of an export.

    Args:
        export: The export.
        ids: The series of samples in other tables.
        names: Texts by StringIds id.
    """

    def __init__(self, export: Export, ids: Identities, names: Names) -> None:
        self._export = export
        self._ids = ids
        self._names = names

    def gpu_of(self, kind: int) -> int | None:
        """Return the GPU that a type's samples are of, None for another part of the chip."""
        return gpu_of_type(kind) if self._sources.get(kind) == _OF_GPU else None

    @property
    def has_samples(self) -> bool:
        """Whether there are events that are samples and in no other table."""
        return bool(self._sampled)

    @property
    def gpus(self) -> set[int | None]:
        """The GPUs that `samples` are of."""
        return {self.gpu_of(kind) for kind in self._sampled}

    @cached_property
    def unread(self) -> dict[str, int]:
        """Number of events that are not read, by where nsys had them from."""
        unread: dict[str, int] = {}
        for kind, count in self._counts.items():
            if kind not in self._sampled and kind not in self._elsewhere:
                source = self._sources.get(kind)
                name = f"{EVENTS} of {source}" if source else EVENTS
                unread[name] = unread.get(name, 0) + count
        return unread

    @cached_property
    def field_names(self) -> dict[tuple[int, ...], str]:
        """Name of each (type, place of the field), where types are described by a table."""
        columns = ("typeId", "fieldIdx", "fieldNameId")
        table = SourceTable.facts(self._export, "GENERIC_EVENT_TYPE_FIELDS", columns)
        return {
            (kind, place): self._names.text_of_id(name)
            for kind, place, name in zip(*map(table.numbers, columns), strict=True)
            if kind is not None and place is not None and name is not None
        }

    @cached_property
    def samples(self) -> Samples:
        """The samples that no other table has. None of a damaged table."""
        with suppress(CorruptTraceError):
            if self._sampled:
                return self._read()
        return Samples(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0), [])

    @cached_property
    def _counts(self) -> dict[int, int]:
        """Number of events of each type."""
        if not self._export.row_count(EVENTS):
            return {}
        with suppress(CorruptTraceError):
            coded = SourceTable(self._export, EVENTS).codes("typeId")
            counts = np.bincount(coded.codes, minlength=len(coded.keys)).tolist()
            return dict(zip(np.asarray(coded.keys).tolist(), counts, strict=True))
        return {}

    @cached_property
    def _elsewhere(self) -> set[int]:
        """The types whose samples other tables have, too."""
        return {key[0] for table in _OTHER_TABLES for key in self._ids.series_keys(table)}

    @cached_property
    def _sampled(self) -> set[int]:
        """The types of `samples`."""
        of_metrics = (
            kind for kind in self._counts if self._sources.get(kind) in (_OF_GPU, _OF_CHIP)
        )
        return {*of_metrics} - self._elsewhere if self._counts else set()

    @cached_property
    def _sources(self) -> dict[int, str]:
        """Name of the source of each type."""
        sources = dict(self._described("GENERIC_EVENT_SOURCES", "sourceId"))
        columns = ("typeId", "sourceId")
        table = SourceTable.facts(self._export, "GENERIC_EVENT_TYPES", columns)
        return {
            kind: sources[source]
            for kind, source in zip(*map(table.numbers, columns), strict=True)
            if kind is not None and source in sources
        }

    def _described(self, name: str, key: str) -> Iterator[tuple[int, str]]:
        """Yield id and name of each row; older exports have the name in JSON."""
        table = SourceTable.facts(self._export, name, [key, "nameId"], ["data"])
        columns = (table.numbers(key), table.numbers("nameId"), table.strings("data"))
        for number, text, data in zip(*columns, strict=True):
            if number is not None:
                called = _object(data).get("Name") if text is None else self._names.text_of_id(text)
                if isinstance(called, str) and called:
                    yield number, called

    def _read(self) -> Samples:
        coded = SourceTable(self._export, EVENTS).codes("typeId")
        is_sampled = np.array([key in self._sampled for key in np.asarray(coded.keys).tolist()])
        table = SourceTable(self._export, EVENTS, np.flatnonzero(is_sampled[coded.codes]))
        columns = dict.fromkeys(("timestamp", "rawTimestamp", "typeId"), Kind.INT64)
        table.fetch({**columns, "genericEventId": Kind.INT64, "data": Kind.TEXT})
        # These samples are taken with the session's clock, so the two are the same.
        times, raw = table.ints("timestamp"), table.ints("rawTimestamp")
        time_ns = np.where(times.is_valid(), times.values, raw.values)
        has_time = times.is_valid() | raw.is_valid()
        kinds = table.ints("typeId").values
        found = self._of_fields(table.ints("genericEventId").values, kinds)
        if found is None:
            found = _of_json(table.strings("data"), kinds.tolist())
            empty = len(kinds) - len(distinct_values(found.event))
            if empty:
                self._export.mismatched[f"{EVENTS}.data"] = empty
        kept = has_time[found.event] & np.isfinite(found.values)
        return Samples(
            time_ns[found.event[kept]], found.series[kept], found.values[kept], found.keys
        )

    def _of_fields(self, ids: I64, kinds: I64) -> _Found | None:
        """Return the values that GENERIC_EVENT_DATA has of the given events, None if none."""
        if not self._export.row_count(DATA) or not len(ids):
            return None
        table = SourceTable(self._export, DATA)
        ints = dict.fromkeys(("genericEventId", "fieldIdx", *_INTS), Kind.INT64)
        table.fetch({**ints, **dict.fromkeys(_FLOATS, Kind.FLOAT64)})
        order = np.argsort(ids, kind="stable")
        owner, (values, is_number) = table.ints("genericEventId").values, _numbers(table)
        place = np.minimum(np.searchsorted(ids[order], owner), len(ids) - 1)
        rows = np.flatnonzero((ids[order][place] == owner) & is_number)
        event, field = order[place[rows]], table.ints("fieldIdx").values[rows]
        groups = factorize_rows(kinds[event], field)
        pairs = zip(kinds[event[groups.first]].tolist(), field[groups.first].tolist(), strict=True)
        keys = [(pair[0], self.field_names.get(pair) or f"metric {pair[1]}") for pair in pairs]
        return _Found(event, groups.codes, values[rows], keys) if len(rows) else None


class _Found(NamedTuple):
    """Values of events, as in `Samples`, each with the place of its event."""

    event: I64
    series: I32
    values: F64
    keys: list[tuple[int, str]]


def _of_json(texts: Sequence[str | None], kinds: Sequence[int]) -> _Found:
    """Return the numbers in the JSON of events; most of them are written as texts."""
    numbers: dict[tuple[int, str], int] = {}
    layouts: dict[tuple[int, tuple[str, ...]], I32] = {}  # few: all events of a type are alike
    series, counts, values = [np.zeros(0, np.int32)], np.zeros(len(texts), np.int64), array("d")
    for place, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        found = _numeric(_object(text))
        layout = kind, tuple(found)
        if layout not in layouts:
            codes = [numbers.setdefault((kind, name), len(numbers)) for name in found]
            layouts[layout] = np.array(codes, np.int32)
        series.append(layouts[layout])
        values.extend(found.values())
        counts[place] = len(found)
    events = np.repeat(np.arange(len(texts)), counts)
    return _Found(events, np.concatenate(series), np.array(values, np.float64), [*numbers])


def _object(text: str | None) -> dict[str, Any]:
    """Return a JSON object, empty if the text is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text or "")
        if isinstance(found, dict):
            return found
    return {}


def _numeric(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an object."""
    try:
        return dict(zip(found, map(float, found.values()), strict=True))
    except (TypeError, ValueError, OverflowError):
        return {name: number for name, value in found.items() for number in _number(value)}


def _number(value: Any) -> tuple[float, ...]:
    try:
        return (float(value),)
    except (TypeError, ValueError, OverflowError):
        return ()


def _numbers(table: SourceTable) -> tuple[F64, BoolArray]:
    """Return the value of each row, from whichever column has one, and whether there is one."""
    signed, unsigned = (table.ints(name) for name in _INTS)
    values, is_number = unsigned.values.view(np.uint64).astype(np.float64), unsigned.is_valid()
    found = [(signed.values.astype(np.float64), signed.is_valid())]
    for column, valid in (*found, *(table.floats(name) for name in _FLOATS)):
        values, is_number = np.where(valid, column, values), is_number | valid
    return values, is_number
