"""Doctor's checks for CUDA on a machine, from files in the driver's format."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture.nvml_stand_in import stand_in
from support import launching

from warpline.capture.machine import checks, cupti
from warpline.capture.machine.checks import Finding
from warpline.capture.machine.driver import driver_version
from warpline.capture.machine.gpus import Gpu, Gpus
from warpline.capture.machine.nvml import Nvml
from warpline.capture.machine.obstacles import Obstacle, obstacle
from warpline.cli.greeting import look
from warpline.errors import CounterError

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n"
OLD_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC\n"
RESTRICTED = "ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n"


@pytest.fixture(autouse=True)
def _no_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_cupti", lambda _: [])


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say how many bytes the disk has left; many, where a test says nothing."""

    def free(count: int) -> None:
        usage = SimpleNamespace(free=count)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    free(50 << 30)
    return free


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def found(root: Path, **environment: str) -> dict[str, Finding]:
    return {item.name: item for item in checks.findings(environment, root, root)}


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    assert {name: item.is_good for name, item in found(tmp_path).items()} == {
        "CUDA driver": False,
        "CUPTI": False,
        "disk": True,
    }
    assert found(tmp_path)["CUPTI"].fix is None


@pytest.mark.parametrize(("text", "version"), [(DRIVER, "580.159.03"), (OLD_DRIVER, "535.54.03")])
def test_the_driver_and_its_gpus(tmp_path: Path, text: str, version: str) -> None:
    put(tmp_path, "proc/driver/nvidia/version", text)
    assert driver_version(tmp_path) == version
    assert found(tmp_path)["CUDA driver"].text == f"{version}, no GPU"
    for number, model in enumerate(("A", "H 100", "H 100")):
        name = f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information"
        put(tmp_path, name, f"Model: \t\t {model}\nIRQ: 7\n")
    assert found(tmp_path)["CUDA driver"].text == f"{version}, 1 x A, 2 x H 100"
    assert "pip install nvidia-cuda-cupti" in (found(tmp_path)["CUPTI"].fix or "")


def test_the_driver_of_windows(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1", "")
    assert found(tmp_path)["CUDA driver"].text.startswith("of Windows (WSL 2)")
    assert (look({}, tmp_path, tmp_path).gpus or "").startswith("driver of Windows (WSL 2)")
    put(tmp_path, "proc/driver/nvidia/version", DRIVER)  # a kernel module is there, too
    assert found(tmp_path)["CUDA driver"].text == "580.159.03, no GPU"


@pytest.mark.parametrize(
    ("driver", "capabilities", "is_good"),
    [
        (DRIVER, "0000000000000000", False),
        (DRIVER, "0000000000200000", True),
        (DRIVER, "0000004000000000", True),
        (OLD_DRIVER, "0000004000000000", False),
    ],
)
def test_who_may_read_counters(
    tmp_path: Path, driver: str, capabilities: str, is_good: bool
) -> None:
    put(tmp_path, "proc/driver/nvidia/version", driver)
    put(tmp_path, "proc/driver/nvidia/params", RESTRICTED)
    put(tmp_path, "proc/self/status", f"Name:\tx\nCapEff:\t{capabilities}\n")
    item = found(tmp_path)["GPU counters"]
    assert (item.is_good, item.fix is None) == (is_good, is_good)
    put(tmp_path, "proc/driver/nvidia/params", RESTRICTED.replace("Only: 1", "Only: 0"))
    assert found(tmp_path)["GPU counters"].text == "accessible to all users"


def test_whether_counters_can_be_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "proc/driver/nvidia/params", RESTRICTED)
    monkeypatch.setattr(checks, "find_cupti", lambda _: [Path("libcupti.so.13")])

    def said(obstacle: Obstacle | None) -> Finding:
        gpu = Gpu(0, "NVIDIA H100", "GH100", obstacle, is_tried=True)
        ask = lambda *_, **__: Gpus((gpu,), Path("libcupti.so.13"))  # noqa: E731
        items = checks.findings({}, tmp_path, tmp_path, ask)
        return next(item for item in items if item.name == "GPU counters")

    assert said(None).text == (
        "can be collected on NVIDIA H100 (GH100), per kernel launch and over time"
    )
    busy = said(obstacle(26))
    assert (busy.is_good, "dcgmi profile --pause" in (busy.fix or "")) == (False, True)

    def fails(*_: object, **__: object) -> Gpus:
        raise CounterError("the GPU driver did not answer", hint="run nvidia-smi")

    items = {item.name: item for item in checks.findings({}, tmp_path, tmp_path, fails)}
    assert items["GPU counters"].fix == "run nvidia-smi"


@pytest.mark.parametrize(("level", "is_good"), [("-1", True), ("2", True), ("4", False)])
def test_perf_events(tmp_path: Path, level: str, is_good: bool) -> None:
    put(tmp_path, "proc/sys/kernel/perf_event_paranoid", level + "\n")
    item = found(tmp_path)["perf events"]
    assert (item.is_good, f"is {level}" in item.text) == (is_good, True)


def test_other_tools_are_named(tmp_path: Path) -> None:
    items = found(
        tmp_path,
        CUDA_INJECTION64_PATH="/opt/tool/libtool.so",
        NVTX_INJECTION64_PATH="/x/libwarpline_agent.so",
    )
    assert (
        items["CUDA_INJECTION64_PATH"].fix
        == "unset CUDA_INJECTION64_PATH if you do not need that tool"
    )
    assert "NVTX_INJECTION64_PATH" not in items


def test_a_cupti_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "nvidia/cu13/lib/libcupti.so.13", "no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(checks, "find_cupti", cupti.find_cupti)
    text = found(tmp_path)["CUPTI"].text
    assert text.startswith("libcupti.so.13, cannot be loaded")


def test_the_room_for_recordings(tmp_path: Path, free: Callable[[int], None]) -> None:
    assert found(tmp_path)["disk"] == Finding.good("disk", f"50.0 GiB free in {tmp_path}")
    free(700 << 20)
    full = found(tmp_path)["disk"]
    assert (full.is_good, full.text) == (False, f"700 MiB free in {tmp_path}")
    assert "warpline profile -o" in (full.fix or "")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (tmp_path, 3))
    assert found(tmp_path)["disk"].text == f"{tmp_path} is not writable"


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_the_memory_of_a_container(tmp_path: Path, name: str) -> None:
    for text, is_good in (("max", None), ("9223372036854771712", None), ("8589934592", True)):
        put(tmp_path, f"sys/fs/cgroup/{name}", text + "\n")
        item = found(tmp_path).get("memory")
        assert (item and item.is_good) is is_good
    assert item is not None
    assert item.text == "this container is limited to 8.00 GiB"
    put(tmp_path, f"sys/fs/cgroup/{name}", "268435456\n")
    assert "--memory=" in (found(tmp_path)["memory"].fix or "")


def test_a_limit_on_files_is_told() -> None:
    code = (
        "import os; from warpline.capture.machine import checks\n"
        "print(*(one.text for one in checks.findings(os.environ) if one.name == 'file size'))"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))

    said = subprocess.run(
        [sys.executable, "-c", code],
        env=launching.environment(),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "limited to 1.00 GiB, which includes recordings\n"


def test_a_monitor_that_holds_the_counters(tmp_path: Path) -> None:
    put(tmp_path, "proc/7/comm", "nv-hostengine-x\n")
    assert "DCGM" not in found(tmp_path)
    put(tmp_path, "proc/41/comm", "nv-hostengine\n")
    assert "process 41" in found(tmp_path)["DCGM"].text


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "can be read from 2 GPUs"),
        ({"FAKE_NVML_OLD": "1"}, "can be read from 2 GPUs, without energy"),
    ],
)
def test_the_state_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    library = ctypes.CDLL(str(stand_in(tmp_path)))
    put(tmp_path, "proc/driver/nvidia/version", DRIVER)
    with_nvml = checks.findings(
        {}, tmp_path, tmp_path, open_nvml=lambda: Nvml.open(lambda _: library)
    )
    assert Finding.good("GPU state", text) in with_nvml
    without = checks.findings({}, tmp_path, tmp_path, open_nvml=lambda: None)
    (found,) = [item for item in without if item.name == "GPU state"]
    assert not found.is_good
