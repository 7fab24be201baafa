"""CUPTI is found; a problem with it is reported and stops nothing."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from agent_cuda import cuda_logs as logs

LAUNCH = "cudaLaunchKernel_v7000"


def _using(folder):
    return [text for kind, text in logs.notes(folder) if kind == logs.NOTE_USING]


def test_the_library_that_is_loaded_already_is_taken(run, cuda):
    folder = run("preload", "init", "launch", 1, cupti=cuda.cupti12, cupti_path=[cuda.cupti13])
    assert _using(folder) == [f"CUPTI 26 {cuda.cupti12}"]
    assert len(logs.found(folder, logs.KERNEL)) == 1


def _copy(library, folder):
    folder.mkdir(parents=True)
    return shutil.copy(library, folder)


@pytest.mark.parametrize(
    ("beside", "place", "name"),
    [
        ("nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cuda_cupti/lib", "cupti12"),
        ("nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib", "cupti13"),
        ("torch/lib/libtorch_cuda.so", "nvidia/cu13/lib", "cupti13"),
        ("cuda/lib64/libcudart.so.12", "cuda/extras/CUPTI/lib64", "cupti12"),
    ],
)
def test_it_is_found_beside_the_programs_cuda(run, cuda, tmp_path, beside, place, name):
    there = _copy(getattr(cuda, name), tmp_path / place)
    loaded = tmp_path / beside
    loaded.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cuda.driver, loaded)  # any library will do
    folder = run("open", loaded, "init", "launch", 1, cupti=there, cupti_path=[])
    (using,) = _using(folder)
    assert using.split(" ", 2)[2].startswith(str(tmp_path))
    assert len(logs.found(folder, logs.KERNEL)) == 1


def test_it_is_found_in_the_toolkit_that_the_environment_names(run, cuda, tmp_path):
    there = _copy(cuda.cupti13, tmp_path / "toolkit" / "extras" / "CUPTI" / "lib64")
    environment = {"CUDA_HOME": str(tmp_path / "toolkit")}
    folder = run("init", "launch", 1, cupti=there, cupti_path=[], environment=environment)
    assert _using(folder) == [f"CUPTI 130001 {there}"]


def test_a_library_newer_than_the_driver_is_not_preferred(run, cuda):
    paths = [cuda.cupti13, cuda.cupti12]
    environment = {"FAKE_DRIVER_VERSION": "12080"}
    folder = run("init", "launch", 1, cupti=cuda.cupti12, cupti_path=paths, environment=environment)
    assert _using(folder) == [f"CUPTI 26 {cuda.cupti12}"]


def test_an_error_is_told_with_its_reason(run, cuda):
    folder = run("init", "launch", 2, environment={"FAKE_CUPTI_SUBSCRIBE": "15"})
    assert logs.notes(folder) == [
        (logs.NOTE_UNAVAILABLE, f"{cuda.cupti13}: cuptiSubscribe: CUPTI_ERROR_OTHER (15)")
    ]


def test_a_library_that_is_too_old_or_none_of_cupti_is_passed_over(run, cuda, tmp_path):
    paths = [tmp_path / "libcupti.so.13", cuda.driver, cuda.cupti13]
    (tmp_path / "libcupti.so.13").write_text("no library")
    assert _using(run("init", "launch", 1, cupti_path=paths)) == [f"CUPTI 130001 {cuda.cupti13}"]
    folder = run("init", "launch", 1, environment={"FAKE_CUPTI_VERSION": "17"})
    assert not any(str(cuda.cupti13) in text for text in _using(folder))
    assert not logs.calls(folder)


def test_without_the_newer_functions_times_are_cuptis_and_clocks_are_compared(run, cuda):
    folder = run("init", "launch", 10, cupti=cuda.cupti12_bare)
    hour = 3_600_000_000_000
    clocks = logs.found(folder, logs.CLOCK)
    assert clocks
    for clock in clocks:
        assert abs(clock.theirs - clock.monotonic - hour) < 1_000_000
    calls = {call.correlation: call for call in logs.found(folder, logs.CALL)}
    for kernel in logs.found(folder, logs.KERNEL):
        call = calls[kernel.correlation]
        assert call.start <= kernel.start - hour <= call.end


def test_a_program_without_a_session_is_left_alone(cuda, tmp_path):
    told = tmp_path / "told"
    environment = cuda.environment(None, FAKE_CUPTI_LOG=str(told))
    environment.pop("WARPLINE_SESSION", None)
    done = subprocess.run(cuda.command("init", "launch", 3), env=environment, check=False)
    assert done.returncode == 0
    assert not told.exists()
