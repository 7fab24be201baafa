"""Where CUPTI is searched for."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpline.capture.machine.cupti import find_cupti
from warpline.capture.session.agent_config import AgentConfig, CudaConfig, GraphTrace


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return put(tmp_path / "env" / "bin" / "python")


def test_the_packages_of_the_programs_python_come_first(tmp_path: Path, program: Path) -> None:
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    old = put(packages / "nvidia" / "cuda_cupti" / "lib" / "libcupti.so.12")
    new = put(packages / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    toolkit = put(tmp_path / "cuda" / "extras" / "CUPTI" / "lib64" / "libcupti.so.12")
    own = put(tmp_path / "own" / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    environment = {"CUDA_HOME": str(tmp_path / "cuda"), "PYTHONPATH": str(tmp_path / "own")}
    assert find_cupti(environment, program)[:4] == [own, new, old, toolkit]


def test_an_active_environment_counts_for_any_program(tmp_path: Path) -> None:
    packages = tmp_path / "venv" / "lib" / "python3.13" / "site-packages"
    found = put(packages / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    environment = {"VIRTUAL_ENV": str(tmp_path / "venv")}
    assert found in find_cupti(environment, Path("/usr/bin/env"))
    assert found not in find_cupti({}, Path("/usr/bin/env"))


def test_in_process_its_own_packages_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = put(tmp_path / "nvidia" / "cuda_cupti" / "lib" / "libcupti.so.12")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_cupti({})[0] == found


def test_the_agents_are_told_what_to_record() -> None:
    lines = (
        AgentConfig(cuda=CudaConfig(("/a b",), graph=GraphTrace.NODE, memory=True))
        .text()
        .splitlines()
    )
    assert lines[-9:] == [
        "cuda=1",
        "cupti_path=%2Fa%20b",
        "cuda_flush_ms=1000",
        "cuda_api=calls",
        "cuda_graph=node",
        "cuda_memory=1",
        "cuda_cpu_faults=0",
        "cuda_gpu_faults=0",
        "cuda_waits=calls",
    ]
    assert "cuda=1" not in AgentConfig().text()
    detached = AgentConfig(cuda=CudaConfig(detach_ms=1000)).text().splitlines()
    assert "cuda_detach_ms=1000" in detached
