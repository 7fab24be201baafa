"""``warpline doctor --fix``: the exact lines, printed and not run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from warpline.capture.machine import checks, cures
from warpline.cli import doctor

RESTRICTED = "ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n"
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Release Build\n"
OPTION = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
NO_RIGHTS = "Name:\tpython\nCapEff:\t0000000000000000\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine that lets users do nothing."""
    for name, text in {
        "proc/driver/nvidia/version": DRIVER,
        "proc/driver/nvidia/params": RESTRICTED,
        "proc/self/status": NO_RIGHTS,
        "proc/sys/kernel/perf_event_paranoid": "4\n",
        "proc/sys/kernel/yama/ptrace_scope": "1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(checks, "find_cupti", lambda _: [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return tmp_path


def commands(root: Path, **environment: str) -> dict[str, tuple[str, ...]]:
    items = checks.findings(environment, root, root, open_nvml=lambda: None)
    return {item.name: item.commands for item in items if not item.is_good}


def test_each_lack_has_its_lines(machine, monkeypatch):
    monkeypatch.setattr(cures.counters, "__defaults__", (Path("/"), {"dracut": "/sbin/dracut"}.get))
    found = commands(machine, NVTX_INJECTION64_PATH="/opt/other.so")
    assert found["perf events"] == (
        "sudo sysctl -w kernel.perf_event_paranoid=2",
        "echo 'kernel.perf_event_paranoid = 2' | sudo tee -a /etc/sysctl.d/60-warpline.conf",
    )
    assert found["attaching"] == (
        "sudo sysctl -w kernel.yama.ptrace_scope=0",
        "echo 'kernel.yama.ptrace_scope = 0' | sudo tee -a /etc/sysctl.d/60-warpline.conf",
    )
    assert found["GPU counters"] == (
        f"echo '{OPTION}' | sudo tee /etc/modprobe.d/warpline-counters.conf",
        "sudo dracut --force",
        "sudo reboot",
    )
    assert found["CUPTI"][0].endswith(" -m pip install nvidia-cuda-cupti")
    assert found["NVTX_INJECTION64_PATH"] == ("unset NVTX_INJECTION64_PATH",)


def test_in_a_container_the_module_cannot_be_changed(machine):
    (machine / ".dockerenv").touch()
    assert commands(machine)["GPU counters"] == ()


def test_ptrace_that_is_off_until_the_next_start_needs_one(machine):
    (machine / "proc/sys/kernel/yama/ptrace_scope").write_text("3\n")
    assert commands(machine)["attaching"][-1] == "sudo reboot"
    (machine / "proc/self/status").write_text("CapEff:\t0000000000080000\n")
    assert "attaching" not in commands(machine)


def test_a_missing_compiler_is_installed_by_the_package_manager_that_is_there():
    there = {"dnf": "/bin/dnf"}
    first, second = cures.compiler(Path("/src/war pline"), there.get)
    assert first.removeprefix("sudo ") == "dnf install -y gcc-c++"
    assert second.endswith(" -m pip install --force-reinstall --no-deps '/src/war pline'")
    assert len(cures.compiler(Path(), {"g++": "/bin/g++", **there}.get)) == 1


def test_the_script_is_one_that_a_shell_can_read_and_nothing_is_run(
    run, machine, monkeypatch, tmp_path
):
    real = checks.findings
    monkeypatch.setattr(
        checks, "findings", lambda _: real({}, machine, machine, open_nvml=lambda: None)
    )
    monkeypatch.setattr("sys.platform", "linux")
    before = sorted(tmp_path.rglob("*"))
    done = run("doctor", "--fix")
    assert (done.status, done.err) == (0, "")
    assert sorted(tmp_path.rglob("*")) == before
    lines = done.out.splitlines()
    at = lines.index("sudo sysctl -w kernel.perf_event_paranoid=2")
    assert lines[at - 1].startswith("# perf events: perf_event_paranoid is 4; ")
    assert lines[-1] == "# These lines were printed, not run."
    subprocess.run(["bash", "-n"], input=done.out, text=True, check=True)
    found = json.loads(run("doctor", "--fix", "-f", "json").out)
    assert any("kernel.perf_event_paranoid=2" in str(item["commands"]) for item in found["cuda"])


def test_what_is_missing_of_python_is_installed():
    package = {"name": "numpy", "version": None, "is_needed": True, "purpose": "all commands"}
    fix = "unset WARPLINE_NATIVE"
    native = {"is_available": False, "reason": "it was not built", "fix": fix, "commands": [fix]}
    facts = {"packages": [package], "is_usable": False, "native": native, "cuda": []}
    lines = doctor.mending(facts).splitlines()
    assert any(line.endswith(" -m pip install 'numpy>=2'") for line in lines)
    assert "unset WARPLINE_NATIVE" in lines


def test_nothing_missing_is_said():
    facts = {"packages": [], "is_usable": True, "native": {"fix": None}, "cuda": []}
    assert doctor.mending(facts).startswith("# Nothing is missing.")
