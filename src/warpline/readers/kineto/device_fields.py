"""Columns of GPU operations and synchronizations: kernels, copies, memsets, waits."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize
from warpline.ops.join import lookup_rows
from warpline.readers.kineto.fields import Field, Reading
from warpline.readers.kineto.kinds import Kind
from warpline.schema import Column
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace.column import ColumnData, make_column

_MOST_BYTES = 1 << 60  # more is damage: sums of such sizes would exceed 64 bits
_COPY = re.compile(r"Mem(?:cpy|set)\s*(\w+)?\s*(?:\(\s*([\w ]+?)\s*(?:->\s*([\w ]+?)\s*)?\))?.*")
_COPY_KIND_OF: Mapping[str, str] = {
    "htod": "Host-to-Device",
    "dtoh": "Device-to-Host",
    "htoa": "Host-to-Array",
    "atoh": "Array-to-Host",
    "atoa": "Array-to-Array",
    "atod": "Array-to-Device",
    "dtoa": "Device-to-Array",
    "dtod": "Device-to-Device",
    "htoh": "Host-to-Host",
    "ptop": "Peer-to-Peer",
}
_NUMBER_OF_COPY = {label: number for number, label in COPY_KINDS.items()}
_NUMBER_OF_MEMORY = {label.lower(): number for number, label in MEMORY_KINDS.items()}
_UNKNOWN_MEMORY = _NUMBER_OF_MEMORY["unknown"]
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


def short_name(full: str) -> str:
    """Return a kernel's base name, without result type, scopes and arguments.

    Brackets of templates and parameters nest, and text inside them is ignored. A name without
    brackets is its own base name.
    """
    inside: list[str] = []
    outside: list[str] = []
    for position, mark in enumerate(full):
        if mark in _CLOSING and not full.startswith(("<<", "<="), position):
            # Parameters separate words. Text in other brackets belongs to the word.
            outside.append(" " if mark == "(" and not inside and outside else "\0")
            inside.append(_CLOSING[mark])
        elif inside and mark == inside[-1] and full[position - 1] != "-":
            inside.pop()
        elif not inside:
            outside.append(mark)
    plain = "".join(outside).replace("\0", "").strip()
    words = plain.split("::")[-1].split()
    first = next((word for word in words if word != "void"), "")
    return first or full


def short(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the base names of kernels."""
    pool = reading.events.pool
    groups = factorize(reading.events.names(rows))
    names = [pool.intern_text(short_name(pool.text(row))) for row in groups.uniques.tolist()]
    return make_column(spec, np.array(names, np.int32)[groups.codes])


def dimension(key: str, axis: int) -> Field:
    """Return one axis of the grid or the block."""

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        values, has_value = reading.events.triples(rows, key)
        if spec.nullable:
            return make_column(spec, values[:, axis], has_value)
        missing = np.flatnonzero(~has_value)
        if len(missing):  # a ROCm trace records it with the launch
            calls, is_known = calls_of(reading, rows[missing])
            values[missing] = reading.events.triples(calls, key)[0]
            values[missing[~is_known]] = 0
        return make_column(spec, values[:, axis])

    return load


def copied_bytes(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the bytes of copies and memsets."""
    values, has_value = reading.events.integers(rows, "bytes", "size")
    missing = np.flatnonzero(~has_value)
    if len(missing):
        calls, is_known = calls_of(reading, rows[missing])
        told = reading.events.integers(calls, "size", "bytes")[0]
        values[missing] = np.where(is_known, told, 0)
    return make_column(spec, np.clip(values, 0, _MOST_BYTES))


def copy_kind(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the direction of copies, from names such as "Memcpy HtoD (Pinned -> Device)"."""
    return make_column(spec, reading.events.per_name(rows, _kind_of))


def copy_memory(place: int) -> Field:
    """Return the kind of the source memory (0) or of the destination (1), null if unrecorded."""

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        values = reading.events.per_name(rows, lambda text: _memory_of(text, place))
        return make_column(spec, values, values >= 0)

    return load


def peer(*keys: str) -> Field:
    """Return one of the devices of a device-to-device copy."""

    def load(reading: Reading, rows: I64, spec: Column) -> ColumnData:
        numbers, has_value = reading.events.integers(rows, *keys)
        devices, is_one = reading.dimensions.devices_of(numbers)
        return make_column(spec, devices, has_value & is_one)

    return load


def wait_kind(reading: Reading, rows: I64, spec: Column) -> ColumnData:
    """Return the objects that the CPU waited for."""
    kinds = reading.events.per_name(rows, _wait_of)
    return make_column(spec, np.maximum(kinds, 0))


def stream_wait_rows(reading: Reading) -> I64:
    """Return the events that make a stream wait for an event."""
    rows = reading.events.rows(Kind.WAIT)
    return rows[reading.events.per_name(rows, _wait_of) < 0]


def host_wait_rows(reading: Reading) -> I64:
    """Return the events that blocked the CPU, without polling calls."""
    rows = reading.events.rows(Kind.WAIT)
    rows = rows[reading.events.per_name(rows, _wait_of) >= 0]
    calls, is_known = calls_of(reading, rows)
    is_poll = reading.events.per_name(calls, lambda text: int("Query" in text)) == 1
    waits: I64 = rows[~(is_poll & is_known)]
    return waits


def _kind_of(text: str) -> int:
    found = _COPY.fullmatch(text)
    label = _COPY_KIND_OF.get((found[1] or "").lower(), "Unknown") if found else "Unknown"
    return _NUMBER_OF_COPY[label]


def _memory_of(text: str, place: int) -> int:
    found = _COPY.fullmatch(text)
    label = found[2 + place] if found else None
    if label is None or label.lower() == "host":  # the kind is not recorded
        return -1
    return _NUMBER_OF_MEMORY.get(label.lower(), _UNKNOWN_MEMORY)


def _wait_of(text: str) -> int:
    """Return the number of `WAIT_KINDS`; -1 for a stream waiting for an event."""
    lowered = text.lower()
    if "stream wait" in lowered:
        return -1
    for word, kind in (("event", 1), ("stream", 3), ("context", 4), ("device", 4)):
        if word in lowered:
            return kind
    return 0


def calls_of(reading: Reading, rows: I64) -> tuple[I64, BoolArray]:
    """Return the API call with each GPU event's correlation, and the mask."""
    events, dimensions = reading.events, reading.dimensions
    if not len(rows):
        return rows, np.zeros(0, np.bool_)
    calls = events.rows(Kind.RUNTIME, Kind.DRIVER)
    wanted, has_one = events.correlations(rows)
    keys, is_key = events.correlations(calls)
    calls, keys = calls[is_key], keys[is_key]
    owners = dimensions.places.process[dimensions.places_of(rows)]
    at = lookup_rows((owners, wanted), (dimensions.processes_of(calls), keys))
    known = at.found & has_one
    if not len(calls):
        return np.zeros(len(rows), np.int64), known
    return calls[at.row], known
