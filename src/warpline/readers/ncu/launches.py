"""The profiled launches of a report, their metrics, and the dimensions that they refer to."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from warpline.counters.units import unit_of
from warpline.readers.ncu.metrics import scan
from warpline.readers.ncu.nvtx import open_ranges
from warpline.readers.ncu.report import Entry, Report
from warpline.readers.ncu.values import Value, ValueColumns, value_of
from warpline.readers.ncu.wire import Message, WireError
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column
from warpline.trace.strings import StringPool

_DEVICE_INDEX = "launch__device_id"
_ATTRIBUTE = "device__attribute_"
# Column of `device` -> attribute of a GPU, and the factor of its unit.
_OF_DEVICE = {
    "sm_count": ("multiprocessor_count", 1),
    "memory_bytes": ("total_memory", 1),
    "l2_bytes": ("l2_cache_size", 1),
    "clock_hz": ("clock_rate", 1000),
    "compute_major": ("compute_capability_major", 1),
    "compute_minor": ("compute_capability_minor", 1),
}
# Column of `profiled_kernel` -> metric that has it.
_OF_LAUNCH = {
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
    "passes": "profiler__replayer_passes",
}
_KNOWN_NAMES = (b"device__a", b"launch__device", *(name.encode() for name in _OF_LAUNCH.values()))
_MOST_BLOCKS = (1 << 63) - 1  # CUDA allows 2^31 x 2^16 x 2^16
_MOST_EXACT = 2.0**53
_AXES = ("x", "y", "z")


class Launches:
    """The launches of a report.

    Args:
        report: The report.
        strings: The pool of texts.

    Attributes:
        entries: The launches in file order: the rows of `profiled_kernel`.
        chips: Ten times the compute capability of each launch's GPU; 0 if unknown.
        metric_rows: (launch, row of the name's text) -> row of `kernel_metric`.

    Raises:
        CorruptTraceError: A launch is damaged.
    """

    TABLES = (
        "profiled_kernel",
        "kernel_metric",
        "process",
        "thread",
        "device",
        "context",
        "stream",
        "metric",
    )

    def __init__(self, report: Report, strings: StringPool) -> None:
        self._report, self._strings = report, strings
        self.entries: list[Entry] = []
        self.chips: list[int] = []
        self._rows: list[dict[str, int]] = []  # of profiled_kernel
        self._devices: list[dict[str, int]] = []
        self._device_of_index: dict[int, int] = {}
        self._contexts: dict[tuple[int, int, int], int] = {}
        self._streams: dict[tuple[int, int, int], int] = {}
        self._names: list[int] = []  # of kernel_metric, with the lists below
        self._values: list[Value] = []
        self._counts: list[int] = []
        self._owners: list[int] = []
        self._texts = strings.intern_all(report.texts)
        self._units = [
            -1 if not unit else strings.intern_text(unit)
            for unit in (unit_of(text.decode("utf-8", "replace")) for text in report.texts)
        ]
        results = (entry for entry in report.entries if entry.kind != "module")
        for number, entry in enumerate(results):
            if entry.kind == "kernel":
                with report.damage(f"the kernel at byte {entry.start:,}"):
                    self._add(number, entry, Message(report.raw(entry)))

    @cached_property
    def metric_rows(self) -> dict[tuple[int, int], int]:
        """(launch, row of the name's text) -> row of `kernel_metric`."""
        named = zip(self._owners, self._texts[self._names].tolist(), strict=True)
        return {key: row for row, key in enumerate(named)}

    def device_row(self, index: int) -> int | None:
        """Return the row of a GPU; None if no launch ran there."""
        return self._device_of_index.get(index)

    def columns(self, table: str) -> dict[str, ColumnData]:
        """Return the columns of one of `TABLES`. Nullable columns may be missing."""
        if table == "kernel_metric":
            return self._metric_columns()
        intern = self._strings.intern
        rows: list[dict[str, int]] = []
        if table == "profiled_kernel":
            rows = self._rows
        elif table == "process":
            rows = [
                {"pid": pid, "host_id": intern(host), "name_id": intern(name)}
                for pid, host, name in self._report.processes
            ]
        elif table == "device":
            rows = self._devices
        elif table == "context":
            rows = [
                {"process_id": process, "device_id": device, "native_id": native, "is_green": 0}
                for process, device, native in self._contexts
            ]
        elif table == "stream":
            rows = [
                {"process_id": process, "context_id": context, "native_id": native}
                for process, context, native in self._streams
            ]
        made = {}
        for spec in TABLES[table].columns:
            valid = np.array([spec.name in row for row in rows], np.bool_)
            if valid.any() or not spec.nullable:
                values = np.array([row.get(spec.name, 0) for row in rows], spec.dtype.value)
                made[spec.name] = make_column(spec, values, valid if spec.nullable else None)
        return made

    def _metric_columns(self) -> dict[str, ColumnData]:
        numbers = np.array(self._names, np.int64)
        units = np.array(self._units, np.int32)[numbers] if len(numbers) else numbers
        values = ValueColumns(len(numbers), self._strings.intern)
        for row, value in enumerate(self._values):
            values.put(row, value)
        specs = TABLES["kernel_metric"]
        return {
            "profiled_kernel_id": ColumnData(np.array(self._owners, np.int32)),
            "name_id": ColumnData(self._texts[numbers]),
            "unit_id": make_column(specs.column("unit_id"), units.astype(np.int32), units >= 0),
            **values.columns(),
            "instances": ColumnData(np.array(self._counts, np.int64)),
        }

    def _add(self, number: int, entry: Entry, result: Message) -> None:
        """Add a launch and its metrics."""
        row = len(self.entries)
        known: dict[str, int] = {}
        for data in result.all_raw(13):
            name, value_bytes, spans = scan(data)
            if name >= len(self._report.texts):
                raise WireError(f"a metric has the name {name} of {len(self._report.texts)}")
            value: Value = (None, None, None) if value_bytes is None else value_of(value_bytes)
            self._owners.append(row)
            self._names.append(name)
            self._values.append(value)
            self._counts.append(len(spans) // 2)
            text = self._report.texts[name]
            if text.startswith(_KNOWN_NAMES):
                whole = _whole(value)
                if whole is not None:
                    known[text.decode("utf-8", "replace")] = whole
        self.entries.append(entry)
        major = known.get(f"{_ATTRIBUTE}compute_capability_major", 0)
        self.chips.append(10 * major + known.get(f"{_ATTRIBUTE}compute_capability_minor", 0))
        self._rows.append(self._facts(number, entry.process, result, known))

    def _facts(
        self, number: int, process: int, result: Message, known: dict[str, int]
    ) -> dict[str, int]:
        """Return the row of `profiled_kernel` of a launch."""
        intern = self._strings.intern
        device = self._device(known.get(_DEVICE_INDEX, 0), known)
        context = self._contexts.setdefault(
            (process, device, result.number(22)), len(self._contexts)
        )
        stream = self._streams.setdefault((process, context, result.number(23)), len(self._streams))
        short = result.raw(6) or b""
        if not (short or result.raw(7)):
            raise WireError("it has no name")
        row = {
            "launch_number": number,
            "process_id": process,
            "device_id": device,
            "context_id": context,
            "stream_id": stream,
            "name_id": intern(result.raw(7) or short),
            "short_name_id": intern(short),
        }
        row.update((name, known[of]) for name, of in _OF_LAUNCH.items() if of in known)
        mangled = result.raw(5)
        if mangled is not None:
            row["mangled_name_id"] = intern(mangled)
        clocks = result.message(25)
        if clocks.integer(1) in (0, 1):  # what other values mean is not known
            row["has_fixed_clocks"] = clocks.number(1)
        ranges = open_ranges(result.message(21), result.number(1))
        if ranges is not None:
            row["nvtx_id"] = intern(ranges)
        for name, field in (("grid", 10), ("block", 11)):
            size = result.message(field)
            row.update((f"{name}_{axis}", size.number(i)) for i, axis in enumerate(_AXES, 1))
            if math.prod(row[f"{name}_{axis}"] for axis in _AXES) > _MOST_BLOCKS:
                raise WireError(f"its {name} is too large")
        return row

    def _device(self, index: int, known: dict[str, int]) -> int:
        """Return the row of the GPU of a launch, added if it is new."""
        row = self._device_of_index.setdefault(index, len(self._devices))
        if row == len(self._devices):
            facts = {"gpu_index": index}
            for column, (attribute, factor) in _OF_DEVICE.items():
                value = known.get(_ATTRIBUTE + attribute)
                if value is not None and value * factor < 1 << 63:
                    facts[column] = value * factor
            name = self._device_names.get(index)
            if name is not None:
                facts["name_id"] = self._strings.intern(name)
            self._devices.append(facts)
        return row

    @cached_property
    def _device_names(self) -> dict[int, bytes]:
        devices = (device for session in self._report.sessions for device in session.messages(6))
        return {
            device.number(1): name
            for device in devices
            for name in (device.raw(2),)
            if name is not None
        }


def _whole(value: Value) -> int | None:
    """Return a value as an integer; None if it is none. Some are stored as real numbers."""
    number, whole, _ = value
    if whole is None and number is not None and 0 <= number < _MOST_EXACT and number.is_integer():
        return int(number)
    return whole
