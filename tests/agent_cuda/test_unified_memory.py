"""Page faults and migrations of unified memory: when they are recorded, and what CUPTI refuses."""

from __future__ import annotations

import threading
import time

import pytest
from agent_cuda import cuda_logs as logs
from agent_cuda.test_records import VERSIONS

CPU, GPU = 2048, 4096  # bits of what is collected
MIGRATIONS = 1 << 1 | 1 << 2 | 1 << 8
BOTH = {"cuda_cpu_faults": 1, "cuda_gpu_faults": 1}
NAME = "page faults and migrations of unified memory"


def collected(folder):
    return [each.collects & (CPU | GPU) for each in logs.found(folder, logs.COLLECTING)]


def failures(folder):
    return [text for kind, text in logs.notes(folder) if kind == logs.NOTE_KIND_FAILED]


@pytest.mark.parametrize("version", VERSIONS)
def test_records(run, cuda, version):
    cupti = cuda.cupti12 if version < 100 else cuda.cupti13
    environment = {"FAKE_CUPTI_VERSION": str(version)}
    folder = run("init", "records", cupti=cupti, environment=environment, **BOTH)
    moved = [copy for copy in logs.found(folder, logs.COPY) if copy.migration]
    names = ("copy_kind", "start", "end", "device", "context", "stream", "correlation", "bytes")
    assert [tuple(getattr(copy, name) for name in names) for copy in moved] == [
        (11, 18_100, 18_300, 1, 0, 0, 0, 65_536),
        (11, 18_300, 18_400, 1, 0, 0, 0, 4096),
        (12, 19_300, 19_800, 1, 0, 0, 0, 2_097_152),
        (13, 19_900, 19_950, 1, 0, 0, 0, 8192),
    ]
    assert [copy.migration for copy in moved] == [
        (0x7F1000001000, 3),
        (0x7F1000001000, 2),
        (0x7F1000002000, 1),
        (0x7F1000008000, 4),
    ]
    assert [copy.peer for copy in moved] == [None, None, None, ((0, 1), (0, 0))]
    (fault,) = logs.found(folder, logs.GPU_FAULT)
    assert (fault.start, fault.end, fault.device) == (18_000, 18_900, 1)
    assert (fault.address, fault.faults, fault.access) == (0x7F1000004000, 3, 2)
    known, unknown = logs.found(folder, logs.CPU_FAULT)
    assert (known.time, known.address) == (19_000, 0x7F1000003000)
    assert (unknown.time, unknown.pc) == (19_200, 16)
    (module,) = [m for m in logs.found(folder, logs.MODULE) if m.path == str(cupti)]
    assert module.begin <= known.pc < module.end
    assert collected(folder)[0] == CPU | GPU


@pytest.mark.parametrize(
    ("keys", "asked"), [({"cuda_cpu_faults": 1}, 1 << 3), ({"cuda_gpu_faults": 1}, 1 << 4)]
)
def test_each_kind_of_fault_by_itself(run, tmp_path, keys, asked):
    told = tmp_path / "told"
    folder = run("init", "records", environment={"FAKE_CUPTI_LOG": str(told)}, **keys)
    story = told.read_text().split("\n")
    assert f"managed {MIGRATIONS | asked}" in story
    assert "on 25" in story
    assert len(logs.found(folder, logs.CPU_FAULT)) == (2 if asked == 1 << 3 else 0)
    assert len(logs.found(folder, logs.GPU_FAULT)) == (1 if asked == 1 << 4 else 0)
    assert sum(copy.migration is not None for copy in logs.found(folder, logs.COPY)) == 4


def test_nothing_of_it_is_touched_by_default(run, tmp_path):
    told = tmp_path / "told"
    folder = run("init", "records", environment={"FAKE_CUPTI_LOG": str(told)})
    assert "managed" not in told.read_text()
    assert "on 25\n" not in told.read_text()
    assert "off 25\n" not in told.read_text()
    assert collected(folder)[0] == 0
    assert not logs.found(folder, logs.MODULE)


def test_what_cupti_refuses_is_told_once_and_the_rest_is_recorded(run):
    folder = run("init", "launch", 3, environment={"FAKE_CUPTI_MANAGED": "29"}, **BOTH)
    assert failures(folder) == [f"{NAME}: CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE (29)"]
    assert collected(folder)[0] == 0
    assert len(logs.found(folder, logs.KERNEL)) == 3


def test_a_cupti_without_the_function(run, cuda):
    folder = run("init", "launch", 3, cupti=cuda.cupti12_bare, **BOTH)
    assert failures(folder) == [f"{NAME}: CUPTI_ERROR_NOT_SUPPORTED (27)"]
    assert len(logs.found(folder, logs.KERNEL)) == 3


def test_a_shared_cupti_is_not_asked(run, cuda):
    environment = {
        "FAKE_CUPTI_BUSY": "Other",
        "FAKE_CUPTI_SHARES": "1",
        "FAKE_DRIVER_VERSION": "13030",
    }
    folder = run("init", "launch", 3, cupti=cuda.cupti13_3, environment=environment, **BOTH)
    assert failures(folder) == [f"{NAME}: CUPTI_ERROR_NOT_SUPPORTED (27)"]
    assert len(logs.found(folder, logs.KERNEL)) == 3


@pytest.mark.parametrize(("error", "answer"), [(None, "on 25"), ("29", "refused 25")])
def test_it_is_asked_again_until_cuda_is_initialized(run, tmp_path, error, answer):
    told, go = tmp_path / "told", tmp_path / "go"
    environment = {"FAKE_CUPTI_LOG": str(told), "FAKE_CUPTI_UNREADY": "2"}
    if error:
        environment["FAKE_CUPTI_MANAGED"] = error

    def wait_for_answer():
        while not told.exists() or answer not in told.read_text():
            time.sleep(0.01)
        go.touch()

    watching = threading.Thread(target=wait_for_answer, daemon=True)
    watching.start()
    folder = run("init", "wait", go, "records", environment=environment, **BOTH)
    watching.join()
    assert len(failures(folder)) == (1 if error else 0)
    assert len(logs.found(folder, logs.GPU_FAULT)) == (0 if error else 1)
    assert collected(folder)[:2] == ([CPU | GPU, 0] if error else [CPU | GPU])
