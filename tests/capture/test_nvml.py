"""The state of GPUs from NVML, with a stand-in for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from capture.nvml_stand_in import UUIDS, stand_in

from warpline.capture.collectors.gpu_health import GpuHealth, Owners, visible
from warpline.capture.collectors.runner import _METERS_S, _SLOW_S
from warpline.capture.machine.nvml import Gpu, GpuLostError, Nvml

Open = Callable[..., Nvml]
# CPU time of a call in ms, measured on an H100 with driver 580; of any other, 0.05 ms or less.
# Fields of values are by their number.
COSTS: Mapping[str | int, float] = {
    "nvmlDeviceGetTotalEnergyConsumption": 5.0,
    "nvmlDeviceGetMemoryInfo_v2": 0.15,
    "nvmlDeviceGetCurrPcieLinkWidth": 0.2,
    "nvmlDeviceGetComputeRunningProcesses_v3": 0.17,
    75: 2.3,  # time limited by heat
}
OTHER_MS = 0.05


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Return a function that opens the stand-in, with variables for it."""

    def open_it(**variables: object) -> Nvml:
        for name, value in variables.items():
            monkeypatch.setenv(f"FAKE_NVML_{name}", str(value))
        path = stand_in(tmp_path)
        found = Nvml.open(lambda _: ctypes.CDLL(str(path)))
        assert found is not None
        return found

    return open_it


def owners(*others: int) -> Owners:
    """Return owners of all processes but these."""
    found = Owners(1, tuple)
    found.are_known = True
    found.is_other = lambda pid: pid in others  # type: ignore[method-assign]
    return found


def test_values_have_the_units_of_their_names(nvml: Open) -> None:
    first, _ = nvml().gpus()
    assert first.uuid == UUIDS[0]
    assert first.state() == {
        "sm_clock_hz": 1_970_000_000,
        "clock_limits": 4,
        "power_mw": 300_125,
        "temperature_c": 61,
        "busy_percent": 75,
    }
    assert first.meters() == {
        "energy_mj": 5_000_000_000_300,
        "power_limited_ns": 1_000_000_000,
        "thermal_limited_ns": 2_000_000,
    }
    assert first.surroundings() == {
        "memory_clock_hz": 2_619_000_000,
        "memory_temperature_c": 77,
        "used_memory_bytes": 7 << 30,
        "pcie_generation": 4,
        "pcie_width": 8,
        "nvlinks": 17,
        "nvlink_sent_bytes": 1000 << 10,
        "nvlink_received_bytes": 2000 << 10,
        "ecc_corrected": 12,
        "ecc_uncorrected": 1,
    }
    assert first.limits() == {
        "memory_clock_hz": 2_619_000_000,
        "power_limit_mw": 500_000,
        "default_power_limit_mw": 700_000,
        "pcie_generation": 5,
        "pcie_width": 16,
    }


def test_what_an_old_driver_lacks_is_unknown(nvml: Open) -> None:
    first = nvml(OLD=1).gpus()[0]
    for _ in range(2):
        state, surroundings = first.state(), first.surroundings()
        assert state["clock_limits"] == 0x20  # by its former name
        assert surroundings["used_memory_bytes"] == 8 << 30
        found = state | first.meters() | surroundings
        assert [name for name, value in found.items() if value is None] == [
            "energy_mj",
            "power_limited_ns",
            "thermal_limited_ns",
            "memory_temperature_c",
            "nvlinks",
            "nvlink_sent_bytes",
            "nvlink_received_bytes",
            "ecc_corrected",
            "ecc_uncorrected",
        ]


def test_nothing_is_asked_of_a_function_that_is_missing() -> None:
    class Bare:
        calls = 0

        def nvmlDeviceGetPowerUsage(self, *_: object) -> int:  # noqa: N802 - NVML's name
            self.calls += 1
            return 4  # no permission

    library = Bare()
    gpu = Gpu(library, ctypes.c_void_p(1))
    assert {*gpu.state().values()} == {*gpu.state().values()} == {None}
    assert library.calls == 1
    assert gpu.processes() is None


@pytest.mark.parametrize("library", [OSError("no such file"), object()])
def test_without_a_driver_there_is_none(library: object) -> None:
    def load(_: str) -> object:
        if isinstance(library, OSError):
            raise library
        return library

    assert Nvml.open(load) is None


def test_a_lost_gpu_has_one_empty_row_and_no_more(nvml: Open) -> None:
    health = GpuHealth(nvml(LOST=2), {}, owners())
    rows = [[*health.read()] for _ in range(4)]
    assert [[row["gpu"] for row in each] for each in rows] == [[0, 1], [0, 1], [0], [0]]
    assert [*rows[1][1]] == ["gpu", "start_ns", "end_ns"]
    assert not health.is_over


def test_a_lost_gpu_raises(nvml: Open) -> None:
    gpu = nvml(LOST=1).gpus()[1]
    with pytest.raises(GpuLostError):
        gpu.state()


def test_errors_are_told_once_with_their_gpu(nvml: Open) -> None:
    health = GpuHealth(nvml(XID=79), {}, owners())
    assert health.is_watching
    assert [(row["gpu"], row["xid"]) for row in health.errors()] == [(1, 79)]
    assert [*health.errors()] == []


def test_errors_that_may_not_be_watched(nvml: Open) -> None:
    assert not GpuHealth(nvml(XID=79, OLD=1), {}, owners()).is_watching


def test_processes_of_others(nvml: Open) -> None:
    health = GpuHealth(nvml(PIDS="10,11,12"), {}, owners(10, 12))
    rows = [(r["other_processes"], r["other_memory_bytes"]) for r in health.read(surroundings=True)]
    assert rows == [(2, 2 << 30), (0, 0)]


def test_more_processes_than_there_was_room_for(nvml: Open) -> None:
    gpu = nvml(PIDS=",".join(map(str, range(1, 101)))).gpus()[0]
    assert [process.pid for process in gpu.processes() or ()] == [*range(1, 101)]


def test_in_another_pid_namespace_others_are_unknown(nvml: Open, tmp_path: Path) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").touch()
    health = GpuHealth(nvml(PIDS="10"), {}, Owners(1, tuple, tmp_path))
    assert all("other_processes" not in row for row in health.read(surroundings=True))


def test_the_programs_processes_descend_from_the_launcher(tmp_path: Path) -> None:
    def process(pid: int, parent: int, name: str = "python") -> None:
        (tmp_path / str(pid)).mkdir()
        rest = " ".join(["0"] * 17)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} {rest} 77 0")
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")

    process(2000100, 1)
    process(2000101, 2000100)  # the program
    process(2000102, 2000101)
    process(2000200, 1)
    process(2000201, 2000200)
    process(2000300, 1)  # attached, and left by its parent before
    process(2000400, 1, "nvidia-cuda-mps")
    found = Owners(2000100, lambda: {2000300}, tmp_path)
    ours = (2000101, 2000102, 2000300, 2000400)
    assert [found.is_other(pid) for pid in ours] == [False] * 4
    assert [found.is_other(pid) for pid in (2000200, 2000201)] == [True] * 2
    assert not found.is_other(2**22 + 5)  # it has ended: Linux has no pid above


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": " 1 ,0,1"}, [1, 0]),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "7"}, []),
        ({"CUDA_VISIBLE_DEVICES": UUIDS[1][:16]}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, [0, 1]),
    ],
)
def test_gpus_that_the_program_sees(
    nvml: Open, environment: dict[str, str], expected: list[int]
) -> None:
    gpus = nvml().gpus()
    assert [gpus.index(gpu) for gpu in visible(gpus, environment)] == expected


def test_numbers_of_different_gpus_are_trusted_only_in_the_drivers_order(nvml: Open) -> None:
    gpus = nvml().gpus()
    gpus[1].name = "another model"
    one = {"CUDA_VISIBLE_DEVICES": "1"}
    assert visible(gpus, one) == gpus
    assert visible(gpus, {**one, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [gpus[1]]


class Costs:
    """A library that sums up what calls of another one would take, in ms of CPU time."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.ms = 0.0

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> int:
            wanted = [item.field for item in arguments[-1]] if "FieldValues" in name else []
            known = [COSTS[key] for key in (name, *wanted) if key in COSTS]
            self.ms += max(known, default=OTHER_MS)
            return int(function(*arguments))

        return call


def test_readings_take_a_thousandth_of_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 1 Hz, by the costs of calls: what costs more must be read rarely."""
    costs = Costs(ctypes.CDLL(str(stand_in(tmp_path))))
    nvml = Nvml.open(lambda _: costs)
    assert nvml is not None
    monkeypatch.setattr(Nvml, "gpus", lambda self: [*self._gpus()][:1])
    health, costs.ms = GpuHealth(nvml, {}, owners()), 0.0
    for second in range(int(_SLOW_S * _METERS_S)):
        meters, surroundings = second % _METERS_S == 0, second % _SLOW_S == 0
        assert len([*health.read(surroundings=surroundings, meters=meters)]) == 1
    assert 0.5 < costs.ms / (_SLOW_S * _METERS_S) <= 1.0
