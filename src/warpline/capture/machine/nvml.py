"""The driver's management library, NVML, opened with ctypes: the state of GPUs.

Each value may be missing by itself: in an old driver, without permission, in a container, with MIG,
or on a GPU without the part. It is None then, and what is unsupported is not asked for again. A
GPU that is lost raises `GpuLostError`. Any call may take as long as the driver wants.

The numbers are those of ``nvml.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ctypes import byref, c_int, c_int64, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

_SUCCESS, _SMALL, _LOST = 0, 7, (15, 16)
# Invalid argument, not supported, no permission, function not found.
_REFUSALS = frozenset({2, 3, 4, 13})
_MHZ = 1_000_000
_KIB = 1024
_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_ALL_LINKS = 0xFFFFFFFF
_MOST_LINKS = 36
_IS_ACTIVE = 1
_MOST_PROCESSES = 4096
_UNKNOWN_SIZE = 2**64 - 1
_XID = 8  # nvmlEventTypeXidCriticalError
_UUID_CHARS, _NAME_CHARS = 96, 96
_32_BITS = {1, 5}  # nvmlValueType_t: unsigned int, signed int
_DOUBLE = 0

# Fields of nvmlDeviceGetFieldValues.
_POWER_LIMITED, _THERMAL_LIMITED, _MEMORY_TEMPERATURE = 74, 75, 82
_LINKS_SENT_KIB, _LINKS_RECEIVED_KIB = 138, 139
_LINKS_SENT, _LINKS_RECEIVED = 202, 204  # what newer GPUs have in place of the former

_COUNTER_FIELDS = ((_POWER_LIMITED, 0), (_THERMAL_LIMITED, 0))
_TEMPERATURE_FIELDS = ((_MEMORY_TEMPERATURE, 0),)
_LINK_FIELDS = tuple(
    (field, _ALL_LINKS)
    for field in (_LINKS_SENT_KIB, _LINKS_RECEIVED_KIB, _LINKS_SENT, _LINKS_RECEIVED)
)


class GpuLostError(Exception):
    """The driver does not reach a GPU any more."""


class Memory(ctypes.Structure):
    """``nvmlMemory_t``: reserved memory counts as used."""

    _fields_ = (("total", c_uint64), ("free", c_uint64), ("used", c_uint64))


class Memory2(ctypes.Structure):
    """``nvmlMemory_v2_t``."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_uint64),
        ("reserved", c_uint64),
        ("free", c_uint64),
        ("used", c_uint64),
    )


class Utilization(ctypes.Structure):
    """``nvmlUtilization_t``, in percent."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class FieldValue(ctypes.Structure):
    """``nvmlFieldValue_t``; the value's type says how many of its bits count."""

    _fields_ = (
        ("field", c_uint),
        ("scope", c_uint),
        ("timestamp", c_int64),
        ("latency", c_int64),
        ("type", c_int),
        ("status", c_int),
        ("value", c_uint64),
    )


class Process1(ctypes.Structure):
    """``nvmlProcessInfo_v1_t``."""

    _fields_ = (("pid", c_uint), ("used", c_uint64))


class Process2(ctypes.Structure):
    """``nvmlProcessInfo_v2_t``."""

    _fields_ = (
        ("pid", c_uint),
        ("used", c_uint64),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class Event(ctypes.Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("gpu", c_void_p),
        ("kind", c_uint64),
        ("data", c_uint64),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


# The newest first.
_PROCESSES = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", Process2),
    ("nvmlDeviceGetComputeRunningProcesses_v2", Process2),
    ("nvmlDeviceGetComputeRunningProcesses", Process1),
)
_CLOCK_LIMITS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",  # its name before driver 535
)


@dataclass(frozen=True)
class ComputeProcess:
    """A process that uses a GPU.

    Attributes:
        pid: Its id, in the namespace that the driver reports.
        used_bytes: Its memory on the GPU; None if unknown.
    """

    pid: int
    used_bytes: int | None


class Gpu:
    """A GPU of the machine.

    Args:
        library: NVML.
        handle: The GPU's handle.
    """

    def __init__(self, library: Any, handle: c_void_p) -> None:
        self._library = library
        self.handle = handle
        self._refused: set[tuple[object, ...]] = set()
        self.uuid = self._text("nvmlDeviceGetUUID", _UUID_CHARS)
        self.name = self._text("nvmlDeviceGetName", _NAME_CHARS)
        self._counter_fields = _fields(_COUNTER_FIELDS)
        self._temperature_fields = _fields(_TEMPERATURE_FIELDS)
        self._link_fields = _fields(_LINK_FIELDS)

    def instances(self) -> list[str]:
        """Return the UUIDs of its MIG instances."""
        count = self._number("nvmlDeviceGetMaxMigDeviceCount") or 0
        found = []
        for index in range(min(count, _MOST_LINKS)):
            handle = c_void_p()
            place = c_uint(index)
            function = getattr(self._library, "nvmlDeviceGetMigDeviceHandleByIndex", None)
            if function is None or function(self.handle, place, byref(handle)) != _SUCCESS:
                continue
            uuid = ctypes.create_string_buffer(_UUID_CHARS)
            if self._library.nvmlDeviceGetUUID(handle, uuid, _UUID_CHARS) == _SUCCESS:
                found.append(uuid.value.decode("ascii", "replace"))
        return found

    def limits(self) -> dict[str, int | None]:
        """Return what the GPU can do at most: clocks in Hz, power in mW, the PCIe link."""
        return {
            "memory_clock_hz": self._clock("nvmlDeviceGetMaxClockInfo", _MEMORY),
            "power_limit_mw": self._number("nvmlDeviceGetEnforcedPowerLimit"),
            "default_power_limit_mw": self._number("nvmlDeviceGetPowerManagementDefaultLimit"),
            "pcie_generation": self._number("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width": self._number("nvmlDeviceGetMaxPcieLinkWidth"),
        }

    def state(self) -> dict[str, int | None]:
        """Return what changes within a second: clock in Hz, power in mW... About 0.2 ms of CPU."""
        used = Utilization()
        is_busy = self._call("nvmlDeviceGetUtilizationRates", byref(used))
        return {
            "sm_clock_hz": self._clock("nvmlDeviceGetClockInfo", _SM),
            "clock_limits": self._first(_CLOCK_LIMITS),
            "power_mw": self._number("nvmlDeviceGetPowerUsage"),
            "temperature_c": self._number("nvmlDeviceGetTemperature", c_uint(0)),
            "busy_percent": used.gpu if is_busy else None,
        }

    def surroundings(self) -> dict[str, int | None]:
        """Return what changes rarely: memory, PCIe, NVLink, errors. About 0.6 ms of CPU."""
        sent_kib, received_kib, sent, received = self._values(self._link_fields)
        (memory_temperature,) = self._values(self._temperature_fields)
        links = self._active_links()
        # Without a link, some drivers count 0 bytes.
        has_links = links is not None
        return {
            "memory_clock_hz": self._clock("nvmlDeviceGetClockInfo", _MEMORY),
            "memory_temperature_c": memory_temperature,
            "used_memory_bytes": self._used_memory(),
            "pcie_generation": self._number("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._number("nvmlDeviceGetCurrPcieLinkWidth"),
            "nvlinks": links,
            "nvlink_sent_bytes": _either(sent_kib, sent) if has_links else None,
            "nvlink_received_bytes": _either(received_kib, received) if has_links else None,
            "ecc_corrected": self._errors(0),
            "ecc_uncorrected": self._errors(1),
        }

    def meters(self) -> dict[str, int | None]:
        """Return what the driver counts for long: energy in mJ, time with limited clocks.

        It costs 5 to 7 ms of CPU on an H100 with driver 580: the driver asks the GPU and waits.
        """
        limited, heated = self._values(self._counter_fields)
        return {
            "energy_mj": self._number("nvmlDeviceGetTotalEnergyConsumption", kind=c_uint64),
            "power_limited_ns": limited,
            "thermal_limited_ns": heated,
        }

    def processes(self) -> list[ComputeProcess] | None:
        """Return the processes that compute on the GPU; None if the driver does not say."""
        for name, kind in _PROCESSES:
            found = self._processes(name, kind)
            if found is not None:
                return found
        return None

    def _processes(self, name: str, kind: type[Process1 | Process2]) -> list[ComputeProcess] | None:
        room = 64
        while room <= _MOST_PROCESSES:
            count, items = c_uint(room), (kind * room)()
            status = self._status(name, byref(count), items)
            if status == _SUCCESS:
                return [
                    ComputeProcess(item.pid, None if item.used == _UNKNOWN_SIZE else item.used)
                    for item in items[: min(count.value, room)]
                ]
            if status != _SMALL:
                return None
            room *= 4
        return None

    def _used_memory(self) -> int | None:
        memory = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", byref(memory)):
            return int(memory.used)
        older = Memory()
        return int(older.used) if self._call("nvmlDeviceGetMemoryInfo", byref(older)) else None

    def _active_links(self) -> int | None:
        states: list[int] = []
        for link in range(_MOST_LINKS):
            state = self._number("nvmlDeviceGetNvLinkState", c_uint(link), key=link)
            if state is None:
                break
            states.append(state)
        return states.count(_IS_ACTIVE) if states else None

    def _errors(self, kind: int) -> int | None:
        volatile = c_int(0)
        return self._number(
            "nvmlDeviceGetTotalEccErrors", c_int(kind), volatile, kind=c_uint64, key=kind
        )

    def _clock(self, name: str, which: int) -> int | None:
        mhz = self._number(name, c_int(which), key=which)
        return None if mhz is None else mhz * _MHZ

    def _first(self, names: Sequence[str]) -> int | None:
        for name in names:
            found = self._number(name, kind=c_uint64)
            if found is not None:
                return found
        return None

    def _text(self, name: str, room: int) -> str:
        text = ctypes.create_string_buffer(room)
        is_told = self._call(name, text, c_uint(room))
        return text.value.decode("utf-8", "replace") if is_told else ""

    def _number(
        self, name: str, *arguments: Any, kind: Any = c_uint, key: Any = None
    ) -> int | None:
        value = kind()
        status = self._status(name, *arguments, byref(value), key=key)
        return int(value.value) if status == _SUCCESS else None

    def _values(self, fields: ctypes.Array[FieldValue]) -> list[int | None]:
        """Return the values of fields: whole numbers that are not negative."""
        if not self._call("nvmlDeviceGetFieldValues", c_int(len(fields)), fields, key=len(fields)):
            return [None] * len(fields)
        return [
            None
            if item.status != _SUCCESS or item.type == _DOUBLE
            else item.value & (0xFFFFFFFF if item.type in _32_BITS else 2**63 - 1)
            for item in fields
        ]

    def _call(self, name: str, *arguments: Any, key: Any = None) -> bool:
        return self._status(name, *arguments, key=key) == _SUCCESS

    def _status(self, name: str, *arguments: Any, key: Any = None) -> int | None:
        """Call a function; None if it is missing or was refused before."""
        if (name, key) in self._refused:
            return None
        function: Callable[..., int] | None = getattr(self._library, name, None)
        status = None if function is None else function(self.handle, *arguments)
        if status in _LOST:
            raise GpuLostError(name)
        if status is None or status in _REFUSALS:
            self._refused.add((name, key))
        return status


class Nvml:
    """NVML, initialized.

    Args:
        library: The library.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._events: c_void_p | None = None

    @classmethod
    def open(cls, load: Callable[[str], Any] = ctypes.CDLL) -> Nvml | None:
        """Return NVML; None without a driver."""
        try:
            library = load(LIBRARY)
            is_begun = library.nvmlInit_v2() == _SUCCESS
        except (OSError, AttributeError):
            return None
        return cls(library) if is_begun else None

    def close(self) -> None:
        """Release the library's connection to the driver."""
        with suppress(AttributeError):
            self._library.nvmlShutdown()

    def gpus(self) -> list[Gpu]:
        """Return the GPUs of the machine; those that do not answer are left out."""
        return list(self._gpus())

    def _gpus(self) -> Iterator[Gpu]:
        count = c_uint()
        try:
            if self._library.nvmlDeviceGetCount_v2(byref(count)) != _SUCCESS:
                return
            by_index = self._library.nvmlDeviceGetHandleByIndex_v2
        except AttributeError:
            return
        for index in range(count.value):
            handle = c_void_p()
            if by_index(c_uint(index), byref(handle)) == _SUCCESS:
                with suppress(GpuLostError):
                    yield Gpu(self._library, handle)

    def watch(self, gpus: Sequence[Gpu]) -> None:
        """Ask for the errors of GPUs, as far as permitted."""
        events = c_void_p()
        with suppress(AttributeError):
            if self._library.nvmlEventSetCreate(byref(events)) != _SUCCESS:
                return
            register = self._library.nvmlDeviceRegisterEvents
            statuses = [register(gpu.handle, c_uint64(_XID), events) for gpu in gpus]
            if _SUCCESS in statuses:
                self._events = events

    @property
    def is_watching(self) -> bool:
        """Whether errors are reported."""
        return self._events is not None

    def errors(self) -> list[tuple[int, int]]:
        """Return the errors since the last call: the GPU's handle and the Xid number."""
        found: list[tuple[int, int]] = []
        if self._events is None:
            return found
        wait = getattr(self._library, "nvmlEventSetWait_v2", None) or getattr(
            self._library, "nvmlEventSetWait", None
        )
        event = Event()
        while wait is not None and len(found) < _MOST_PROCESSES:
            if wait(self._events, byref(event), c_uint(0)) != _SUCCESS:
                break
            if event.kind == _XID:
                found.append((event.gpu or 0, event.data))
        return found


def _fields(wanted: Sequence[tuple[int, int]]) -> ctypes.Array[FieldValue]:
    return (FieldValue * len(wanted))(*(FieldValue(field, scope) for field, scope in wanted))


def _either(kib: int | None, size: int | None) -> int | None:
    return size if kib is None else kib * _KIB
