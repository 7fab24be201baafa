"""What the driver and CUPTI say about GPUs, and what stands in the way of their counters."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support import launching

from warpline.capture.machine import gpu_probe, gpus, obstacles
from warpline.capture.machine.gpus import find_gpus
from warpline.capture.machine.obstacles import obstacle
from warpline.errors import CounterError

CUPTI = Path("/opt/cupti/libcupti.so.13")
PYTHON = sys.executable
SUPPORTED = dict.fromkeys(gpu_probe.SUPPORT, 3)


class FakeDriver:
    """Two GPUs of compute capability 9.0; the second one cannot be opened."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13000
        return 0

    def cuInit(self, _: int) -> int:  # noqa: N802
        return self.status

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802
        device._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, _: int, device: Any) -> int:  # noqa: N802
        name.value = f"NVIDIA H100 number {device.value}".encode()
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: int, _: Any) -> int:  # noqa: N802
        value._obj.value = {75: 9, 76: 0}[which]
        return 0

    def cuDevicePrimaryCtxRetain(self, _: Any, device: Any) -> int:  # noqa: N802
        return 46 if device.value == 1 else 0

    def cuCtxSetCurrent(self, _: Any) -> int:  # noqa: N802
        return 0


class FakeCupti:
    """Knows the chip GH100, and returns a status for attempts to use counters."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.sizes: dict[str, int] = {}

    def cuptiProfilerInitialize(self, call: Any) -> int:  # noqa: N802
        return self._note(call)

    def cuptiDeviceGetChipName(self, call: Any) -> int:  # noqa: N802
        call._obj.pChipName = b"GH100"
        return self._note(call)

    def cuptiProfilerDeviceSupported(self, call: Any) -> int:  # noqa: N802
        for name in gpu_probe.SUPPORT:
            setattr(call._obj, name, 3)
        return self._note(call)

    def cuptiProfilerGetCounterAvailability(self, call: Any) -> int:  # noqa: N802
        call._obj.counterAvailabilityImageSize = 16
        self._note(call)
        return self.status

    def _note(self, call: Any) -> int:
        self.sizes[type(call._obj).__name__] = call._obj.structSize
        return 0


def test_the_answer_about_two_gpus() -> None:
    cupti = FakeCupti()
    found = gpu_probe.answer(FakeDriver(), cupti, None)
    assert (found["driver"], found["cuda"], found["profiler"]) == (13000, 0, 0)
    first, second = found["gpus"]
    assert first == {
        "index": 0,
        "name": "NVIDIA H100 number 0",
        "capability": [9, 0],
        "chip": "GH100",
        "support": SUPPORTED,
        "counters": 0,
    }
    assert second["counters"] is None  # only the first is opened
    # Sizes as CUPTI 12.6 to 13.3 know the structures, without padding at their ends.
    assert cupti.sizes == {
        "ProfilerInitialize": 16,
        "ChipName": 32,
        "DeviceSupported": 52,
        "CounterAvailability": 40,
    }


def test_gpus_that_cannot_be_opened_and_those_without_rights() -> None:
    denied = gpu_probe.answer(FakeDriver(), FakeCupti(35), [0, 1])["gpus"]
    assert [gpu["counters"] for gpu in denied] == [35, None]
    assert gpu_probe.answer(FakeDriver(100), None, None) == {
        "driver": 13000,
        "cuda": 100,
        "gpus": [],
    }
    assert gpu_probe.answer(FakeDriver(), None, None)["gpus"][0]["chip"] is None


def said(**more: Any) -> dict[str, Any]:
    """Return an answer about one GPU, with changes."""
    gpu = {
        "index": 0,
        "name": "NVIDIA H100",
        "capability": [9, 0],
        "chip": "GH100",
        "support": SUPPORTED,
        "counters": 0,
    }
    return {"driver": 13000, "cuda": 0, "profiler": 0, "problem": None, "gpus": [gpu], **more}


def answers(monkeypatch: pytest.MonkeyPatch, *found: dict[str, Any]) -> list[Path | None]:
    """Let the process answer these in turn; return the libraries that it is asked with."""
    asked: list[Path | None] = []
    rest = list(found)

    def ask(_: object, path: Path | None, *__: object) -> dict[str, Any]:
        asked.append(path)
        return rest.pop(0)

    monkeypatch.setattr(gpus, "_ask", ask)
    return asked


def test_the_first_cupti_that_can_count_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path("/usr/local/cuda/libcupti.so.12")
    asked = answers(monkeypatch, said(problem="it is older than 12.6"), said(cupti=130400))
    found = find_gpus({}, [other, CUPTI])
    assert asked == [other, CUPTI]
    assert (found.cupti, found.version) == (CUPTI, 130400)
    assert (found.tried.chip, found.tried.obstacle, found.tried.is_tried) == ("GH100", None, True)


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        ({"no_driver": "libcuda.so.1: no"}, "no NVIDIA driver was found", "kernels plan"),
        (said(cuda=100), "no GPU was found; CUDA_VISIBLE_DEVICES may hide it", "kernels plan"),
        (said(gpus=[]), "no GPU was found", "kernels plan"),
        (said(cuda=803), "the NVIDIA driver cannot be used (CUDA error 803)", "update"),
        (said(cuda=999), "CUDA cannot be initialized (error 999)", "nvidia-smi"),
        (said(problem="it is older than 12.6"), "no CUPTI can collect counters", "12.6 or later"),
        (said(profiler=7), "no CUPTI can collect counters with this driver", "CUPTI"),
    ],
)
def test_machines_that_cannot_count(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], message: str, hint: str
) -> None:
    answers(monkeypatch, answer)
    with pytest.raises(CounterError) as caught:
        find_gpus({}, [CUPTI])
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_a_machine_without_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(monkeypatch, said()) == []
    with pytest.raises(CounterError, match="CUPTI was not found"):
        find_gpus({}, [])


def test_obstacles_are_those_of_the_gpu_that_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = said()
    busy["gpus"] = [{**busy["gpus"][0], "counters": None}, {**busy["gpus"][0], "counters": 26}]
    answers(monkeypatch, busy)
    found = find_gpus({}, [CUPTI], [1]).tried
    assert found.obstacle is not None
    assert "another profiler" in found.obstacle.cause


def fake_python(folder: Path, code: str) -> str:
    """Return a program in place of Python that ignores its arguments."""
    path = folder / "python"
    path.write_text(f"#!{PYTHON}\n{code}")
    path.chmod(0o755)
    return str(path)


def test_a_process_that_crashes_or_hangs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = 'import os, sys\nif sys.argv[4]: os.abort()\nprint(\'{"cuda": 0, "gpus": [1]}\')'
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, crash))
    with pytest.raises(CounterError, match=r"it crashed \(signal 6\)"):
        find_gpus({}, [CUPTI])
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, "import os; os.abort()"))
    with pytest.raises(CounterError, match=r"the NVIDIA driver crashed \(signal 6\)"):
        find_gpus({}, [CUPTI])
    hang = "import signal; signal.pause()"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, hang))
    with pytest.raises(CounterError, match="the GPU driver did not answer within"):
        find_gpus({}, [CUPTI], limit_s=0.2)


def test_the_process_has_the_programs_environment_without_other_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import json, os\nprint(json.dumps({'no_driver': json.dumps(dict(os.environ))}))"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, code))
    environment = {
        "CUDA_VISIBLE_DEVICES": "3",
        "CUDA_INJECTION64_PATH": "/tool.so",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/the/programs",
    }
    found = gpus._ask(environment, CUPTI, (), 60)
    seen = json.loads(found["no_driver"])
    assert seen["CUDA_VISIBLE_DEVICES"] == "3"
    assert {"CUDA_INJECTION64_PATH", "LD_PRELOAD"}.isdisjoint(seen)
    assert "/the/programs" not in seen["PYTHONPATH"]


def test_the_real_process_says_what_is_missing() -> None:
    try:
        ctypes.CDLL(gpu_probe.DRIVER)
    except OSError:
        with pytest.raises(CounterError, match="no NVIDIA driver was found"):
            find_gpus(launching.environment(), [])
    else:
        pytest.skip("there is a driver")


@pytest.mark.parametrize(
    ("status", "cause", "cure"),
    [
        (26, "another profiler uses the GPU's counters", "dcgmi profile --pause"),
        (33, "this virtual GPU has no counters", "warpline profile"),
        (39, "another tool in the program uses CUPTI", "without other profilers"),
        (40, "the hypervisor does not allow counters", "administrator"),
        (41, "confidential computing is on", "turn it off"),
        (42, "mining GPUs (CMP) have no counters", "another GPU"),
        (43, "this MIG instance has no counters", "MIG"),
        (999, "CUPTI cannot use the GPU's counters (error 999)", "warpline doctor"),
    ],
)
def test_each_obstacle_has_a_cure(status: int, cause: str, cure: str) -> None:
    found = obstacle(status)
    assert found is not None
    assert found.cause.startswith(cause)
    assert cure in found.cure
    assert not found.is_about_rights


@pytest.mark.parametrize(
    ("part", "level", "cause"),
    [
        ("vGpu", 1, "this virtual GPU has no counters"),
        ("vGpu", 2, "the hypervisor does not allow"),
        ("confidentialCompute", 1, "confidential computing"),
        ("architecture", 1, "the GPU is older than Volta"),
        ("wsl", 1, "Windows Subsystem for Linux"),
    ],
)
def test_what_cupti_says_of_the_configuration(part: str, level: int, cause: str) -> None:
    found = obstacle(0, {**SUPPORTED, part: level})
    assert found is not None
    assert found.cause.startswith(cause)
    assert obstacle(0, SUPPORTED) is None
    assert obstacle(None, None) is None


@pytest.mark.parametrize(
    ("driver", "is_container", "cure"),
    [
        ("580.159.03", False, "grant CAP_PERFMON"),
        ("535.54.03", False, "run as root"),
        ("580.159.03", True, "docker run --cap-add=PERFMON"),
        ("535.54.03", True, "docker run --cap-add=SYS_ADMIN"),
    ],
)
def test_the_right_to_read_counters(
    tmp_path: Path, driver: str, is_container: bool, cure: str
) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue\n")
    if is_container:
        (tmp_path / ".dockerenv").touch()
    found = obstacle(35, root=tmp_path)
    assert found is not None
    assert found.is_about_rights
    assert "ERR_NVGPUCTRPERM" in found.cause
    assert cure in found.cure
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.cure
    assert obstacles.is_restricted(tmp_path) is None


def test_the_layouts_are_those_of_the_header() -> None:
    """CUPTI 13.3 appends to one structure; fields before keep their places."""
    assert gpu_probe.DeviceSupported.api.offset == 48
    assert gpu_probe.CounterAvailability.pCounterAvailabilityImage.offset == 32
