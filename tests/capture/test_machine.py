"""What doctor finds out about CUDA on a machine, from files as the driver shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.capture import cupti, machine
from warpline.capture.machine import Finding

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n"
OLD_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC\n"
RESTRICTED = "ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n"


@pytest.fixture(autouse=True)
def _no_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_cupti", lambda _: [])


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def found(root: Path, **environment: str) -> dict[str, Finding]:
    return {item.name: item for item in machine.findings(environment, root)}


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    assert {name: item.is_good for name, item in found(tmp_path).items()} == {
        "CUDA driver": False,
        "CUPTI": False,
    }
    assert found(tmp_path)["CUPTI"].fix is None


@pytest.mark.parametrize(("text", "version"), [(DRIVER, "580.159.03"), (OLD_DRIVER, "535.54.03")])
def test_the_driver_and_its_gpus(tmp_path: Path, text: str, version: str) -> None:
    put(tmp_path, "proc/driver/nvidia/version", text)
    assert found(tmp_path)["CUDA driver"].text == f"{version}, no GPU"
    for number, model in enumerate(("A", "H 100", "H 100")):
        name = f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information"
        put(tmp_path, name, f"Model: \t\t {model}\nIRQ: 7\n")
    assert found(tmp_path)["CUDA driver"].text == f"{version}, 1 x A, 2 x H 100"
    assert "pip install nvidia-cuda-cupti" in (found(tmp_path)["CUPTI"].fix or "")


@pytest.mark.parametrize(
    ("capabilities", "is_good"),
    [("0000000000000000", False), ("0000000000200000", True), ("0000004000000000", True)],
)
def test_who_may_read_counters(tmp_path: Path, capabilities: str, is_good: bool) -> None:
    put(tmp_path, "proc/driver/nvidia/params", RESTRICTED)
    put(tmp_path, "proc/self/status", f"Name:\tx\nCapEff:\t{capabilities}\n")
    item = found(tmp_path)["GPU counters"]
    assert (item.is_good, item.fix is None) == (is_good, is_good)
    put(tmp_path, "proc/driver/nvidia/params", RESTRICTED.replace("Only: 1", "Only: 0"))
    assert found(tmp_path)["GPU counters"].text == "open to every user"


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
    assert items["CUDA_INJECTION64_PATH"].fix == "unset CUDA_INJECTION64_PATH, if it is not wanted"
    assert "NVTX_INJECTION64_PATH" not in items


def test_a_cupti_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "nvidia/cu13/lib/libcupti.so.13", "no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(machine, "find_cupti", cupti.find_cupti)
    text = found(tmp_path)["CUPTI"].text
    assert text.startswith("libcupti.so.13, which cannot be loaded")
