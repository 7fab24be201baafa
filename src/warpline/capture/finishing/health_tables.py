"""Tables of the state of GPUs and of the machine, from the files of readings of a session."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from warpline.capture.finishing.draft import Made, Packed
from warpline.capture.finishing.processes import Processes
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import Told
from warpline.capture.session.readings import (
    COLUMNS,
    UNKNOWN,
    IsRecording,
    Readings,
    ReadingsError,
    path_of,
    read_readings,
)
from warpline.schema import TABLES, Column, DType
from warpline.units import format_ns

_FAR_NS = 1 << 61
_MOST_GPUS = 1024
_NEAR = 1.5  # readings this many periods before and after recording are kept: one on each side

# Columns of the recording in another unit than in the file: its column, and its parts of a whole.
_PARTS: Mapping[str, tuple[str, int]] = {
    "power_w": ("power_mw", 1000),
    "energy_j": ("energy_mj", 1000),
    "busy_ratio": ("busy_percent", 100),
    "usable_cores": ("usable_millicores", 1000),
    "power_limit_w": ("power_limit_mw", 1000),
    "default_power_limit_w": ("default_power_limit_mw", 1000),
}
_OF_DEVICES = (
    "memory_clock_hz",
    "power_limit_w",
    "default_power_limit_w",
    "pcie_generation",
    "pcie_width",
)
_MEASURED = [name for name in COLUMNS["gpu_health"] if name not in {"gpu", "is_recording"}][2:]


def make_health(
    folder: Path, session: RawSession, told: Told, origin_ns: int, kept_ns: int = 0
) -> dict[str, Made]:
    """Return the tables, and columns of devices, that the readings of a sealed session give.

    A table without a file was not recorded. Damage is a warning in `told`. Times are relative to
    `origin_ns`, a monotonic time. Nothing counts as recorded before `kept_ns`, another one.
    """
    made: dict[str, Made] = {}
    gpus = _read(folder, "gpu_health", told)
    errors = _read(folder, "gpu_error", told)
    host = _read(folder, "host_health", told)
    numbers = devices_of(session)
    if gpus is not None:
        devices = device_of(_gpus(gpus.facts), numbers)
        if numbers:
            made["device"] = _limits(gpus.facts, devices, session.rows("device"))
        if devices:
            _tell_lost(gpus, devices, told, origin_ns)
            times = ("start_ns", "end_ns")
            kept = _kept_gpus(gpus, devices, kept_ns)
            made["gpu_health"] = _table("gpu_health", gpus, kept, times, origin_ns, devices)
    if errors is not None:
        devices = device_of(_gpus(errors.facts), numbers)
        if devices:
            sound = _sound(errors, ("time_ns",), devices)
            rows = zip(errors.columns["xid"], errors.columns["time_ns"], strict=True)
            known = (xid != UNKNOWN and ns >= kept_ns for xid, ns in rows)
            kept = [*map(bool.__and__, sound, known)]
            made["gpu_error"] = _table("gpu_error", errors, kept, ("time_ns",), origin_ns, devices)
    if host is not None:
        made["host_health"] = _host(host, session, origin_ns, kept_ns)
    return made


def _read(folder: Path, table: str, told: Told) -> Readings | None:
    name = path_of(folder, table).name
    try:
        found = read_readings(folder, table)
    except ReadingsError as error:
        told.warnings.append(f"{name} could not be read: {error}")
        return None
    if found is not None and found.is_cut:
        told.warnings.append(f"{name}: the last reading is incomplete")
    return found


def devices_of(session: RawSession) -> dict[str, int]:
    """Return the recording's GPUs: UUID without its prefix -> row."""
    rows = session.rows("device")
    raw = b"".join(session.values("device/uuid_id", rows, 4))
    texts = memoryview(raw).cast("i")
    nulls = b"".join(session.mask("device/uuid_id", rows))
    return {_plain(session.text(text)): row for row, text in enumerate(texts) if nulls[row]}


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _gpus(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = facts.get("gpus")
    gpus = found[:_MOST_GPUS] if isinstance(found, list) else []
    return [gpu if isinstance(gpu, dict) else {} for gpu in gpus]


def device_of(gpus: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]) -> dict[int, int]:
    """Return the recording's row of each GPU that the program used, by place in the list.

    Args:
        gpus: Facts of each GPU, with its UUIDs.
        numbers: What `devices_of` returns.
    """
    found: dict[int, int] = {}
    for number, gpu in enumerate(gpus):
        uuids = gpu.get("uuids")
        for uuid in uuids if isinstance(uuids, list) else ():
            if isinstance(uuid, str) and _plain(uuid) in numbers:
                found.setdefault(number, numbers[_plain(uuid)])
    return found


def _limits(facts: Mapping[str, Any], devices: Mapping[int, int], rows: int) -> Made:
    """Return the columns of the device table that NVML knows."""
    gpus = _gpus(facts)
    values: dict[str, list[int]] = {}
    for name in _OF_DEVICES:
        source = _PARTS.get(name, (name, 1))[0]
        column = values[name] = [UNKNOWN] * rows
        for number, row in devices.items():
            value = gpus[number].get(source)
            if type(value) is int and 0 <= value < _FAR_NS:
                column[row] = value
    columns = {
        name: _packed(TABLES["device"].column(name), column) for name, column in values.items()
    }
    return Made(rows, columns)


def _sound(
    readings: Readings, times: Sequence[str], devices: Mapping[int, int] | None
) -> list[bool]:
    """Return which rows have times, and belong to a GPU of the recording."""
    columns = [readings.columns[name] for name in times]
    sound = [
        all(-_FAR_NS < ns < _FAR_NS for ns in row) and row[0] <= row[-1]
        for row in zip(*columns, strict=True)
    ]
    if devices is None:
        return sound
    return [
        is_sound and gpu in devices
        for is_sound, gpu in zip(sound, readings.columns["gpu"], strict=True)
    ]


def _kept_gpus(readings: Readings, devices: Mapping[int, int], kept_ns: int) -> list[bool]:
    sound = _sound(readings, ("start_ns", "end_ns"), devices)
    measured = [readings.columns[name] for name in _MEASURED]
    # Energy is read rarely: its readings before and after recorded times say what these used.
    around = _near(readings, sound, kept_ns, "meters_period_ns")
    has_energy = (value != UNKNOWN for value in readings.columns["energy_mj"])
    near = [
        is_near or (is_around and has_one)
        for is_near, is_around, has_one in zip(
            _near(readings, sound, kept_ns), around, has_energy, strict=True
        )
    ]
    return [
        is_near and any(value != UNKNOWN for value in row)
        for is_near, row in zip(near, zip(*measured, strict=True), strict=True)
    ]


def _near(
    readings: Readings, sound: Sequence[bool], kept_ns: int, fact: str = "period_ns"
) -> list[bool]:
    """Return which sound rows were read while recording was on, or a period before or after.

    What was recorded before `kept_ns`, a monotonic time, was not kept.
    """
    period = readings.facts.get(fact)
    near_ns = int(min(max(period, 0), _FAR_NS) * _NEAR) if type(period) is int else 0
    starts, flags = readings.columns["start_ns"], readings.columns["is_recording"]
    kept = [False] * len(sound)
    forth, back = range(len(kept)), range(len(kept) - 1, -1, -1)
    for rows, is_on in ((forth, {IsRecording.YES}), (back, {IsRecording.YES, IsRecording.WAS})):
        last: int | None = None
        for row in compress(rows, map(sound.__getitem__, rows)):
            if flags[row] in is_on and starts[row] >= kept_ns:
                last = starts[row]
            if last is not None and abs(starts[row] - last) <= near_ns:
                kept[row] = True
    return kept


def _tell_lost(readings: Readings, devices: Mapping[int, int], told: Told, origin_ns: int) -> None:
    """Warn about GPUs that the driver lost: their last row has no value."""
    columns = readings.columns
    for row in range(readings.rows):
        gpu = columns["gpu"][row]
        if gpu in devices and all(columns[name][row] == UNKNOWN for name in _MEASURED):
            after = format_ns(max(0, columns["start_ns"][row] - origin_ns))
            told.warnings.append(
                f"GPU {devices[gpu]} was lost: its driver did not reach it after {after}; run"
                " nvidia-smi"
            )


def _host(readings: Readings, session: RawSession, origin_ns: int, kept_ns: int) -> Made:
    times = ("start_ns", "end_ns")
    processes = Processes(session)
    near = _near(readings, _sound(readings, times, None), kept_ns)
    pairs = zip(readings.columns["pid"], readings.columns["start_ns"], strict=True)
    rows = [processes.row(pid, ns) if pid else UNKNOWN for pid, ns in pairs]
    kept = [is_near and row is not None for is_near, row in zip(near, rows, strict=True)]
    table = _table("host_health", readings, kept, times, origin_ns)
    ids = [UNKNOWN if row is None else row for row in compress(rows, kept)]
    column = TABLES["host_health"].column("process_id")
    return Made(table.rows, {**table.columns, "process_id": _packed(column, ids)})


def _table(
    table: str,
    readings: Readings,
    kept: Sequence[bool],
    times: Sequence[str],
    origin_ns: int,
    devices: Mapping[int, int] | None = None,
) -> Made:
    columns = {}
    for column in TABLES[table].columns:
        source = _PARTS.get(column.name, (column.name, 1))[0]
        convert: Callable[[int], int] | None = None
        if column.name == "device_id" and devices is not None:
            source, convert = "gpu", devices.__getitem__
        elif column.name in times:
            convert = (-origin_ns).__add__
        if source not in readings.columns:
            continue
        values: Iterable[int] = compress(readings.columns[source], kept)
        columns[column.name] = _packed(column, map(convert, values) if convert else values)
    return Made(sum(kept), columns)


def _packed(column: Column, values: Iterable[int]) -> Packed:
    """Return values as the recording stores them."""
    whole = array("q", values)
    valid = None
    if UNKNOWN in whole:
        valid = bytes(map(UNKNOWN.__ne__, whole))
        whole = array("q", (value if value != UNKNOWN else 0 for value in whole))
    if column.dtype is DType.FLOAT64:
        parts = _PARTS[column.name][1]
        return array("d", (value / parts for value in whole)).tobytes(), valid
    if column.dtype is DType.INT32:
        return array("i", whole).tobytes(), valid
    return whole.tobytes(), valid
