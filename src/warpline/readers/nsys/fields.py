"""How columns of an export become a column of a trace: the vocabulary of `mapping`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from warpline.frozen import frozen, made
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, BoolArray, repeated, taken
from warpline.ops.group import factorize_rows
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.dimensions import Dimensions
from warpline.readers.nsys.export import Export, Ints, SourceTable
from warpline.readers.nsys.identity import PROCESS_MASK, Identities, Place
from warpline.readers.nsys.metrics import Metrics, unsigned
from warpline.readers.nsys.names import NO_NAME, Names
from warpline.readers.nsys.networks import NETWORK_TABLES
from warpline.schema import Column
from warpline.schema.labels import CODE_KINDS
from warpline.trace.backtraces import Backtraces
from warpline.trace.column import ColumnData, make_column, null_column
from warpline.trace.source import ROWS_PER_BLOCK

CUDA_CHAINS, OS_CHAINS, SAMPLE_CHAINS, SWITCH_CHAINS = CHAIN_TABLES = (
    "CUDA_CALLCHAINS",
    "OSRT_CALLCHAINS",
    "SAMPLING_CALLCHAINS",
    "WARPLINE_SCHED_CALLCHAINS",  # of our own exports
)
_NATIVE, _KERNEL = 1, 2  # of schema.labels.CODE_KINDS

_PERIOD = lazy_pattern(r"[1-9][0-9]{0,9}")

T = TypeVar("T", bound=np.generic)


@frozen
class Reading:
    """What fields are built from.

    Attributes:
        export: The export.
        names: Texts.
        ids: The native ids in use.
        dimensions: The rows of native ids.
        metrics: The series of samples.
        backtraces: The stacks of the CHAIN_TABLES, in their order.
    """

    export: Export
    names: Names
    ids: Identities
    dimensions: Dimensions
    metrics: Metrics
    backtraces: Backtraces


@frozen
class Field:
    """One column of a trace, from columns of one source table.

    Attributes:
        load: Returns the column that `Column` declares, one value for each row of the table.
        kinds: The source columns it reads, so that all fields share one pass over the file.
    """

    load: Callable[[Reading, SourceTable, Column], ColumnData]
    kinds: Mapping[str, Kind] = made(dict)


def required(source: str) -> Field:
    """Return a required number. A missing one is damage."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ints = table.ints(source)
        table.require(source, ints.valid)
        return make_column(spec, ints.values)

    return Field(load, {source: Kind.INT64})


def number(source: str, *, null: int | None = None) -> Field:
    """Return a number. A missing one is null, or 0 where the trace allows no null.

    Args:
        source: The source column.
        null: A value that means "none".
    """

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ints = table.ints(source)
        if not spec.nullable:
            return make_column(spec, ints.filled(0))
        if null is None:
            return make_column(spec, ints.values, ints.valid)
        return make_column(spec, ints.values, ints.is_valid() & (ints.values != null))

    return Field(load, {source: Kind.INT64})


def coded_number(source: str) -> Field:
    """Return a nullable number of few distinct values, read as codes, which others read, too."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        coded = table.codes(source)
        values = taken(np.asarray(coded.keys, np.int64), coded.codes)
        return make_column(spec, values, coded.valid)

    return Field(load, {source: Kind.INT64_CODES})


def label(source: str) -> Field:
    """Return a number of an enumeration; "Unknown" for one that the schema lacks."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        assert spec.labels is not None
        unknown = next(number for number, text in spec.labels.items() if text == "Unknown")
        ints = table.ints(source)
        known = np.isin(ints.values, [*spec.labels]) & ints.is_valid()
        values = np.where(known, ints.values, unknown)
        return make_column(spec, values, ints.valid if spec.nullable else None)

    return Field(load, {source: Kind.INT64})


def flag(source: str) -> Field:
    """Return a number as a bool; null is False."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, table.ints(source).filled(0) != 0)

    return Field(load, {source: Kind.INT64})


def constant(value: int) -> Field:
    """Return the same number in every row."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, np.full(len(table), value))

    return Field(load)


def constant_text(text: bytes) -> Field:
    """Return the same text in every row."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return make_column(spec, np.full(len(table), reading.names.pool.intern(text), np.int32))

    return Field(load)


def name(*sources: str) -> Field:
    """Return a text by its StringIds id, from the first of the source columns that exists."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        source = next((name for name in sources if table.has(name)), sources[0])
        ids = table.codes(source)
        return text_column(reading, spec, reading.names.of_ids(ids), ids.valid)

    return Field(load, dict.fromkeys(sources, Kind.INT64_CODES))


def inline(source: str) -> Field:
    """Return a text stored in the row itself."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        rows, valid = reading.names.of_texts(table.text_codes(source))
        return text_column(reading, spec, rows, valid)

    return Field(load, {source: Kind.TEXT_CODES})


def thread(source: str = "globalTid") -> Field:
    """Return the thread of a globalTid."""
    return _by_key(source, ~0, lambda dimensions: dimensions.thread_row)


def process(source: str = "globalTid") -> Field:
    """Return the process of a globalTid or globalPid."""
    return _by_key(source, PROCESS_MASK, lambda dimensions: dimensions.process_row)


def _by_key(source: str, mask: int, row_of: Callable[[Dimensions], Mapping[int, int]]) -> Field:
    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        keyed = reading.ids.codes(table.name, source)
        known = row_of(reading.dimensions)
        # A key without a row is null, or belongs to the profiler.
        found_rows = [known.get(key & mask) for key in keyed.keys.tolist()]
        rows = np.array([row or 0 for row in found_rows], np.int32)
        has_row = np.array([row is not None for row in found_rows], np.bool_)
        codes, valid = keyed.codes, keyed.valid
        if table.rows is not None:
            codes = taken(codes, table.rows)
            valid = None if valid is None else taken(valid, table.rows)
        is_valid = taken(has_row, codes)
        if valid is not None:
            is_valid = is_valid & valid
        return make_column(spec, taken(rows, codes), is_valid if spec.nullable else None)

    return Field(load)


def place_process() -> Field:
    """Return the process of a GPU operation."""
    return _by_place(lambda dimensions, place: dimensions.process_row[place.process])


def place_device() -> Field:
    """Return the device of a GPU operation."""
    return _by_place(Dimensions.device_row_of)


def place_context() -> Field:
    """Return the context of a GPU operation."""
    return _by_place(Dimensions.context_row_of)


def place_stream() -> Field:
    """Return the stream of a GPU operation."""
    return _by_place(Dimensions.stream_row_of)


def _by_place(row_of: Callable[[Dimensions, Place], int | None]) -> Field:
    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        codes, places = reading.ids.places(table.name)
        if table.rows is not None:
            codes = taken(codes, table.rows)
        rows = [row_of(reading.dimensions, place) for place in places]
        values = np.array([0 if row is None else row for row in rows], np.int32)
        valid = np.array([row is not None for row in rows], np.bool_)
        if valid.all() and len(set(rows)) == 1:  # as on the only GPU
            return make_column(spec, repeated(values[:1], len(codes)))
        is_valid = taken(valid, codes) if spec.nullable else None
        return make_column(spec, taken(values, codes), is_valid)

    return Field(load)


def peer(source: str) -> Field:
    """Return the device at one end of a peer copy, by its number in the process."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        numbers = table.ints(source)
        codes, places = reading.ids.places(table.name)
        dimensions, rows = reading.dimensions, np.flatnonzero(numbers.is_valid())
        values = np.zeros(len(numbers.values), np.int32)
        if len(rows):
            groups = factorize_rows(codes[rows], numbers.values[rows])
            devices = [
                dimensions.device_row[dimensions.gpu(places[codes[row]].process, int(number))]
                for row, number in zip(
                    rows[groups.first].tolist(), numbers.values[rows[groups.first]], strict=True
                )
            ]
            values[rows] = np.array(devices, np.int32)[groups.codes]
        return make_column(spec, values, numbers.is_valid())

    return Field(load, {source: Kind.INT64})


def api_kind(source: str) -> Field:
    """Return whether a call is in the runtime or driver API, by its name; otherwise null."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        ids = table.codes(source)
        names = [reading.names.text_of_id(key) for key in np.asarray(ids.keys).tolist()]
        kinds = np.array([_api_of(name) for name in names], np.int32)[ids.codes]
        return make_column(spec, kinds, kinds >= 0)

    return Field(load, {source: Kind.INT64_CODES})


def _api_of(name: str) -> int:
    if name.startswith("cuda"):
        return 0
    return 1 if re.match("cu[A-Z]", name) else -1


def stack(source: str, chains: str) -> Field:
    """Return the stack of a backtrace in the table `chains`.

    An id without frames is null: OSRT_API writes 0 for "none", other tables NULL.
    """
    part = CHAIN_TABLES.index(chains)

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        return reading.backtraces.stack_of(part, ColumnData(*table.ints(source)))

    return Field(load, {source: Kind.INT64})


def code_kind(source: str, ours: str) -> Field:
    """Return whether a frame is in the kernel; native code is all else that nsys writes here.

    Exports of Warpline say more in the column `ours`.
    """

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        kind = np.where(table.ints(source).filled(0) != 0, _KERNEL, _NATIVE)
        known = table.ints(ours)
        is_known = known.is_valid() & np.isin(known.values, [*CODE_KINDS])
        return make_column(spec, np.where(is_known, known.values, kind))

    return Field(load, dict.fromkeys((source, ours), Kind.INT64))


def noted(ours: str, field: Field) -> Field:
    """Return a number of a column that exports of Warpline have, else what `field` returns."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        if not table.has(ours):
            return field.load(reading, table, spec)
        return make_column(spec, *table.ints(ours))

    return Field(load, {**field.kinds, ours: Kind.INT64})


def sampling_period() -> Field:
    """Return the CPU time that samples stand for, null unless the recording says it.

    It does if they were taken by the software clock, whose period is in ns.
    """

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        noted = SourceTable.facts(reading.export, "META_DATA_CAPTURE", texts=["name", "value"])
        names, values = noted.strings("name"), noted.strings("value")
        options = {name: value or "" for name, value in zip(names, values, strict=True)}
        period = options.get("LINUX_PERF_OPTIONS:SAMPLING_PERIOD", "")
        if options.get("LINUX_PERF_OPTIONS:CPU_IP_TRIGGER_TYPE") != "Software":
            return null_column(spec, len(table))
        if not _PERIOD.fullmatch(period):
            return null_column(spec, len(table))
        return make_column(spec, np.full(len(table), int(period)))

    return Field(load)


def sampled_at() -> Field:
    """Return the time of a sample. Some exports have it in the column for the unconverted time.

    Both are on the session's clock: nsys takes these samples with it.
    """

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        times = table.ints("timestamp")
        if times.valid is not None and table.has("rawTimestamp"):
            raw = table.ints("rawTimestamp")
            values = np.where(times.valid, times.values, raw.values)
            times = Ints(values, times.valid | raw.is_valid())
        table.require("timestamp", times.valid)
        return make_column(spec, times.values)

    return Field(load, {"timestamp": Kind.INT64})


def metric() -> Field:
    """Return the metric of a sample."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        known = reading.dimensions.metric_row
        rows = [known[series.name] for series in reading.metrics.series[table.name]]
        return make_column(spec, _by_series(reading, table, np.array(rows, np.int32)))

    return Field(load)


def metric_device() -> Field:
    """Return the device of a sample, null for one that is not of a GPU."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        known = reading.dimensions.device_row
        gpus = [series.gpu for series in reading.metrics.series[table.name]]
        rows = np.array([0 if gpu is None else known[gpu] for gpu in gpus], np.int32)
        is_valid = np.array([gpu is not None for gpu in gpus], np.bool_)
        if is_valid.all() and len(set(gpus)) == 1:  # as of the only GPU
            return make_column(spec, repeated(rows[:1], len(table)))
        valid = _by_series(reading, table, is_valid)
        return make_column(spec, _by_series(reading, table, rows), valid)

    return Field(load)


def metric_value() -> Field:
    """Return the value of a sample in the unit that the metric's name has."""

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        values, valid = table.floats("value")
        table.require("value", valid)
        if table.name in NETWORK_TABLES:
            return make_column(spec, values)
        converted, series = np.empty(len(values)), _series(reading, table)
        divisors = reading.metrics.divisors(table)
        for begin in range(0, len(values), ROWS_PER_BLOCK):  # what a block takes is no memory
            block = slice(begin, begin + ROWS_PER_BLOCK)
            np.divide(unsigned(values[block]), divisors[series[block]], out=converted[block])
        return make_column(spec, converted)

    return Field(load, {"value": Kind.FLOAT64})


def _by_series(reading: Reading, table: SourceTable, values: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the value of each sample's series."""
    return taken(values, _series(reading, table))


def _series(reading: Reading, table: SourceTable) -> I32:
    """Return the number of each sample's series."""
    codes = reading.ids.series(table.name)[0]
    return codes if table.rows is None else taken(codes, table.rows)


def text_column(reading: Reading, spec: Column, rows: I32, valid: BoolArray | None) -> ColumnData:
    """Return a column of texts. A missing one is null, or a placeholder if null is not allowed."""
    if valid is None or spec.nullable:
        return make_column(spec, rows, valid)
    return make_column(spec, np.where(valid, rows, reading.names.pool.intern(NO_NAME)))
