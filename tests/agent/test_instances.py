"""Instances of NVTX: several in a process, of an older version, small and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import raw_logs

DRIVER = 4 << 16
RUNTIME = 5 << 16


@pytest.fixture
def instance(record, compile_program):
    program = compile_program("instance.c", "-std=gnu11")
    return lambda scenario, **options: raw_logs.decode(record(program, scenario, **options))


def test_cuda_objects_are_named(instance):
    (log,) = instance("cuda", prints="1 3")
    assert log.resources == {
        (DRIVER | 1, 0): "driver's device",
        (DRIVER | 2, 0x10): "context",
        (DRIVER | 3, 0x20): "stream of the driver é",
        (DRIVER | 4, 0x30): "event of the driver",
        (RUNTIME | 0, 1): "device",
        (RUNTIME | 1, 0x40): "stream",
        (RUNTIME | 1, 0x48): "wide stream",
        (RUNTIME | 2, 0x50): "event",
    }


def test_a_table_with_fewer_functions(instance):
    instance("small", prints="1 2")


def test_instances_that_cannot_be_served_are_refused(instance):
    assert instance("broken", prints="0 0 0 0 0 0 1 1 1") == []


def test_without_a_session_nothing_is_served(agent, compile_program):
    program = compile_program("instance.c", "-std=gnu11")
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(agent)}
    environment.pop("WARPLINE_SESSION", None)
    for folder in ({}, {"WARPLINE_SESSION": "/no/such/folder"}):
        done = subprocess.run(
            [program, "small"], env={**environment, **folder}, check=True, capture_output=True
        )
        assert done.stdout.split() == [b"0", b"0"]
        assert done.stderr == b""


def test_the_library_of_each_instance_is_named(record, compile_program):
    library = compile_program("library.c", "-shared", "-fPIC", name="libwork.so")
    program = compile_program(
        "instances.cpp", "-std=c++17", "-lwork", f"-Wl,-rpath,{library.parent}"
    )
    logs = raw_logs.decode(record(program, prints="-1"))
    notes = [note for log in logs for note in log.notes]
    bound = [Path(text).name for kind, text in notes if kind == raw_logs.NOTE_NVTX_BOUND]
    assert bound == ["instances", "libwork.so"]
    events = [event for log in logs for event in log.events]
    shown = [(event.name, event.domain) for event in events if event.kind in ("push", "mark")]
    assert shown == [
        ("outer", ""),
        ("tick", "engine"),
        ("step", "engine"),
        ("wide", "engine"),
        ("pushed here, popped there", ""),
        ("registered here, used there", "shared"),
    ]
    outer, tick = events[:2]
    assert (outer.color, outer.value, tick.category) == (0xFF010203, -4, 4)
    assert sum(event.kind == "pop" for event in events) == 4
    (start,) = [event for event in events if event.kind == "start"]
    (stop,) = [event for event in events if event.kind == "stop"]
    assert start.range_id == stop.range_id
    assert start.tid != stop.tid


@pytest.mark.slow
def test_the_second_version_of_nvtx(record, compile_program, tmp_path):
    """PyTorch up to 2.5 is linked with libnvToolsExt."""
    wanted = ["--no-deps", "nvidia-nvtx-cu12==12.1.105"]
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path), *wanted]
    done = subprocess.run(install, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"it cannot be installed: {done.stderr.splitlines()[-1]}")
    package = tmp_path / "nvidia" / "nvtx"
    (library,) = (package / "lib").glob("libnvToolsExt.so*")
    options = ("-DNVTX2", f"-I{package / 'include'}", str(library), f"-Wl,-rpath,{library.parent}")
    program = compile_program("core.c", *options, name="core2")
    (log,) = raw_logs.decode(record(program, "forms", prints="0 1 2 2 1 0"))
    assert log.ranges() == [("push a", 0), ("push w", 1), ("push ex", 2)]
    assert [Path(text).name for _, text in log.notes] == [library.name]
