"""Columns of CPU events: calls, operators, Python frames, ranges and allocations."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.readers.kineto.fields import Reading, name
from warpline.readers.kineto.kinds import Kind
from warpline.schema import Column
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace.column import ColumnData, make_column

MODULE = "nn.Module: "

_FUNCTION, _BUILT_IN, _MODULE_CALL = 0, 1, 2  # of schema.labels.FRAME_KINDS
_HOST, _DEVICE = 0, 1  # of schema.labels.ALLOCATOR_DEVICES

_MOST_BYTES = 1 << 60  # more is damage: sums of such sizes would exceed 64 bits

global_name = name


def api_kind(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return whether calls belong to the runtime (0) or the driver API (1)."""
    return make_column(spec, reading.events.kinds[rows] == Kind.DRIVER)


def frame_kind(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the names of the called functions."""
    return make_column(spec, reading.events.per_name(rows, _kind_of_frame))


def module_rows(reading: Reading) -> I64:
    """Return the events that are ranges: annotations, and calls of the model's modules."""
    events = reading.events
    frames = events.rows(Kind.PYTHON)
    is_module = events.per_name(frames, _kind_of_frame) == _MODULE_CALL
    return np.union1d(events.rows(Kind.ANNOTATION), frames[is_module])


def range_name(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the names of ranges. A module has the name of its class and its number."""
    pool = reading.events.pool

    def named(text: str) -> int:
        return pool.intern_text(text.removeprefix(MODULE))

    is_module = reading.events.kinds[rows] == Kind.PYTHON
    values = reading.events.names(rows)
    values[is_module] = reading.events.per_name(rows[is_module], named)
    return make_column(spec, values)


def range_domain(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the domain of ranges. Only modules have a named one."""
    is_module = reading.events.kinds[rows] == Kind.PYTHON
    domain = reading.events.pool.intern_text(MODULE_DOMAIN)
    return make_column(spec, np.where(is_module, domain, 0), is_module)


def source_id(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the position of each event in the file, from 1."""
    return make_column(spec, rows + 1)


def allocation_memory(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the location of allocated memory."""
    return make_column(spec, np.where(_is_on_device(reading, rows), _DEVICE, _HOST))


def allocated_on(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the device of allocated memory, null for host memory."""
    numbers, has_value = reading.events.integers(rows, "Device Id")
    devices, is_one = reading.dimensions.devices_of(numbers)
    return make_column(spec, devices, has_value & is_one & _is_on_device(reading, rows))


def released_or_not(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return 0 for an allocation, 1 for a free, which has a negative size in the file."""
    return make_column(spec, reading.events.integers(rows, "Bytes")[0] < 0)


def allocation(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the bytes allocated or freed."""
    sizes = reading.events.integers(rows, "Bytes")[0]
    return make_column(spec, np.minimum(np.abs(np.maximum(sizes, -_MOST_BYTES)), _MOST_BYTES))


def _is_on_device(reading: Reading, rows: I64) -> BoolArray:
    kinds, has_value = reading.events.integers(rows, "Device Type")
    is_there: BoolArray = has_value & (kinds != 0)
    return is_there


def _kind_of_frame(text: str) -> int:
    if text.startswith(MODULE):
        return _MODULE_CALL
    return _BUILT_IN if text.startswith("<built-in") else _FUNCTION
