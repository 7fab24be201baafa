"""The machine-wide number of a GPU, if the process sees only some of them."""

from __future__ import annotations

import subprocess

import pytest
from agent_cuda import cuda_logs as logs


def _number(folder):
    (device,) = {found.id: found for found in logs.found(folder, logs.DEVICE)}.values()
    assert (device.id, device.pci) == (1, (1, 0xAB, 1))
    return device.number


@pytest.fixture
def nvml(nvml):
    """The same library, which knows the number of the device that the fake CUPTI lists."""
    return {**nvml, "FAKE_NVML_INDEX": "6"}


def test_the_management_library_knows(run, nvml):
    assert _number(run("init", "launch", 1, environment=nvml)) == 6
    hidden = {**nvml, "CUDA_VISIBLE_DEVICES": "3,5"}
    assert _number(run("init", "launch", 1, environment=hidden)) == 6


def test_it_may_not_know_that_device(run, nvml):
    other = {**nvml, "FAKE_NVML_PLACE": "00000000:01:00.0"}
    assert _number(run("init", "launch", 1, environment=other)) is None
    listed = {**other, "CUDA_VISIBLE_DEVICES": "3,5"}
    assert _number(run("init", "launch", 1, environment=listed)) == 5


def test_it_is_told_if_nobody_knows(run, nvml):
    nobody = {**nvml, "FAKE_NVML_PLACE": "", "CUDA_VISIBLE_DEVICES": "GPU-8f3a,GPU-11c2"}
    folder = run("init", "launch", 1, environment=nobody)
    assert _number(folder) is None
    doubts = [
        text for log in logs.read(folder) for kind, text in log.notes if kind == logs.NOTE_DOUBT
    ]
    assert len(doubts) == 1
    assert "gpu_index counts visible GPUs only" in doubts[0]


@pytest.mark.parametrize(
    ("visible", "number"),
    [
        *(("3,5", 5), ("7,0,1", 0), (" 2, 4", 4), ("3", None), ("3,-1", None), ("", None)),
        *(("GPU-8f3a,GPU-11c2", None), ("0,GPU-11c2", None), ("1,2x", None), (",1", None)),
    ],
)
def test_a_list_of_visible_devices(cuda, visible, number):
    assert _ask(cuda, "list", visible, "1") == number


def _ask(cuda, *words):
    program = cuda.program.parent / "gpu_number"
    done = subprocess.run([program, *words], check=True, capture_output=True, text=True, timeout=60)
    found = int(done.stdout)
    return None if found < 0 else found


def test_the_list_of_the_driver(cuda, tmp_path):
    # In the order of the buses, whatever the order in the folder; domains first.
    places = ["0001:01:00.0", "0000:9a:00.0", "0000:1b:00.0", "0000:1b:02.0"]
    for name in (*places, "README", "0000:zz:00.0"):
        (tmp_path / name).mkdir()
    found = [_ask(cuda, "folder", str(tmp_path), *_words(place)) for place in places]
    assert found == [3, 2, 0, 1]
    assert _ask(cuda, "folder", str(tmp_path), "0", "1c", "0") is None
    assert _ask(cuda, "folder", str(tmp_path / "none"), "0", "1b", "0") is None


def _words(place):
    domain, bus, rest = place.split(":")
    return domain, bus, rest.split(".")[0]
