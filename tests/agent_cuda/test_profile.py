"""``warpline profile`` of a program that uses CUDA: from the flags to the recording's tables."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import native
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Profile = Callable[..., Trace]


@pytest.fixture
def profile(tmp_path: Path, cuda: Any) -> Profile:
    """Return a function that profiles the program with flags and gives the recording."""
    library = tmp_path / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    library.parent.mkdir(parents=True)
    shutil.copy(cuda.cupti13, library)

    def run(*words: object, flags: tuple[str, ...] = (), status: int = 0) -> Trace:
        output = tmp_path / "run.warpline"
        command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-o", str(output)]
        # The program finds CUPTI where a package of its Python would be.
        command += ["-f", "true", "-e", f"PYTHONPATH={tmp_path / 'packages'}", *flags, "--"]
        command += cuda.command(*words, cupti=library)
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done.stderr
        return warpline.open(output)

    return run


def calls(trace: Trace) -> list[str]:
    names: list[str] = trace["api_call"]["name"].to_list()
    return names


def test_launches_become_kernels_and_calls(profile: Profile) -> None:
    trace = profile("init", "launch", 5)
    assert len(trace["kernel"]) == 5
    assert sum(name.startswith("cudaLaunchKernel") for name in calls(trace)) == 5
    assert trace["kernel"]["correlation_id"].to_list() == [
        correlation
        for name, correlation in trace["api_call"].select("name", "correlation_id").rows()
        if name.startswith("cudaLaunchKernel")
    ]
    assert (trace.meta.lost, trace.meta.warnings) == ({}, ())
    assert any("CUPTI" in text for text in trace["diagnostic"]["text"].to_list())


def test_records_of_every_kind_become_rows(profile: Profile) -> None:
    trace = profile("init", "records", flags=("--cuda-memory-usage=true", "--cuda-waits=cupti"))
    for table in ("kernel", "memcpy", "memset", "stream_wait", "event_record", "memory_event"):
        assert trace.row_count(table) > 0, table
    assert {"device", "context", "stream"} <= {*trace.tables}


def test_page_faults_and_migrations_of_unified_memory(profile: Profile) -> None:
    flags = ("--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true")
    trace = profile("init", "records", flags=flags)
    names = ("kind", "bytes", "migration_cause")
    copies = trace["memcpy"].select(*names).rows()
    assert [copy for copy in copies if copy[0].startswith("Unified")] == [
        ("Unified Host-to-Device", 65_536, "Speculative prefetch"),
        ("Unified Host-to-Device", 4096, "Page fault"),
        ("Unified Device-to-Host", 2_097_152, "User prefetch"),
        ("Unified Device-to-Device", 8192, "Eviction"),
    ]
    assert trace["um_gpu_page_fault"]["faults"].to_list() == [3]
    faults = trace["um_cpu_page_fault"]
    assert faults["function"].to_list() == ["cuptiGetCallbackName", "0x10"]
    assert faults["module"][0].endswith("libcupti.so.13")
    assert "in part" not in " ".join(trace.meta.warnings)


def test_page_faults_that_cupti_refuses_are_a_warning(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUPTI_MANAGED", "29")
    trace = profile("init", "launch", 5, flags=("--cuda-um-gpu-page-faults=true",))
    assert len(trace["kernel"]) == 5
    (told,) = trace.meta.warnings
    assert told == (
        "CUDA is recorded in part: page faults and migrations of unified memory:"
        " CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE (29)"
    )
    assert "um_gpu_page_fault" not in trace.tables


def test_waits_follow_from_calls(profile: Profile) -> None:
    recorded = ("call_with", 2, 30, 0, "abc0,d000")
    words = ("init", "records", *recorded, "call_with", 2, 34, 0, "e000,abc0,0", "call", 37, 0)
    trace = profile(*words)
    assert [trace.row_count(table) for table in ("host_wait", "stream_wait", "event_record")] == [
        *(1, 1, 1)
    ]
    assert trace["stream_wait"]["event_sync_id"].to_list() == [1]


def test_cuda_that_is_not_asked_for_is_not_recorded(profile: Profile) -> None:
    trace = profile("init", "launch", 5, flags=("-t", "nvtx"))
    assert not {"kernel", "api_call", "device"} & {*trace.tables}


def test_calls_of_cuda_bound_the_recording(profile: Profile) -> None:
    words = ("init", "launch", 3, "start", "launch", 2, "stop", "launch", 4)
    flags = ("-c", "cudaProfilerApi", "--capture-range-end=stop")
    trace = profile(*words, flags=flags)
    assert len(trace["kernel"]) == 2
    ((start, end),) = trace.meta.windows_ns or ()
    calls = trace.columns("api_call", "start_ns", "end_ns")
    assert start <= calls["start_ns"].values.min() < calls["end_ns"].values.max() <= end
    assert trace.recorded_ns() == end - start


@pytest.mark.parametrize(
    "flags", [("-c", "cudaProfilerApi"), ("--duration", "1")], ids=["range", "duration"]
)
def test_a_program_is_not_ended_before_its_device_work_is_written(
    profile: Profile, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The device is not waited for by cuCtxSynchronize, with which the fake driver aborts.
    monkeypatch.setenv("FAKE_WORK_MS", "1300")
    words = ("init", "start", "launch", 7, "stop", "sleep", 30_000)
    trace = profile(*words, flags=flags)
    assert len(trace["kernel"]) == 7
    assert trace.meta.lost == {}


def test_what_a_killed_program_launched_last_is_told(profile: Profile) -> None:
    trace = profile("init", "hold", "launch", 7, "kill", status=-9)
    assert (len(trace["kernel"]), trace.meta.lost) == (0, {"kernels": 7})
    assert "have no record because the process was killed" in " ".join(trace.meta.warnings)


def test_steps_are_told_from_the_launches(profile: Profile) -> None:
    trace = profile(
        *("init", "repeat", 700, "m,k1x20,k2,u1000"), flags=("--steps", "5", "--every", "100")
    )
    (told,) = (text for text in trace.meta.warnings if "were recorded" in text)
    assert re.search(
        r"5 of every 100 steps were recorded: \d windows in the \d+ steps"
        r" after steps were first detected;"
        r" steps detected from periodic launches \(period \d[\d.]* ms, 21 launches\);",
        told,
    )
    assert trace.meta.windows_ns is not None
    whole = len(trace.meta.windows_ns) - 1  # the program may have ended within the last
    assert 105 * whole <= trace.row_count("kernel") <= 105 * (whole + 1)
