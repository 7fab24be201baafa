"""The installed nvtx package for Python."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support import raw_logs

pytest.importorskip("nvtx")

PROGRAM = Path(__file__).parent / "python_program.py"

RANGES = [
    ("decorated", "work"),
    ("_named_by_function", ""),
    ("wörld 世界", ""),
    ("inner", "work"),
    ("pushed", "work"),
    ("step 0", ""),
    ("step 1", ""),
    ("step 2", ""),
    ("object", "objects"),
]


def _run(record, code: str, **options: object) -> list[raw_logs.Log]:
    return raw_logs.decode(record(sys.executable, "-c", code, **options))


def test_the_package_as_programs_use_it(record):
    main, other = raw_logs.decode(record(sys.executable, PROGRAM))
    pushes = [event for event in main.events if event.kind == "push"]
    assert [(event.name, event.domain) for event in pushes] == RANGES
    assert [event.name for event in other.events] == ["in a thread", None]
    by_name = {event.name: event for event in pushes}
    assert by_name["wörld 世界"].value == 7
    assert by_name["pushed"].value == 2.5
    assert (by_name["pushed"].category, by_name["decorated"].category) == (3, 1)
    assert [event.color for event in pushes][:3] == [0xFF0000, 0x0000FF, 0x123456]
    assert main.categories == {("work", 1): "calls", ("objects", 1): "kind"}
    assert sum(event.kind == "pop" for event in main.events) == len(pushes)
    (start,) = [event for event in main.events if event.kind == "start"]
    assert (start.name, start.domain) == ("started", "work")


def test_arrays_and_records_as_payloads(record):
    pytest.importorskip("numpy")
    code = """
import numpy, nvtx
domain = nvtx.get_domain("arrays")
kind = numpy.dtype([("step", "i4"), ("loss", "f8"), ("name", "U4")])
for payload in (numpy.arange(3), numpy.array((7, 0.5, "abc"), dtype=kind), b"bytes"):
    domain.push_range(domain.get_event_attributes(message="array", payload=payload))
    domain.pop_range()
"""
    (log,) = _run(record, code)
    array, structured, _ = (event.payloads[0] for event in log.events if event.kind == "push")
    assert array.data == struct.pack("<4q", 3, 0, 1, 2)
    step, loss, name = log.schemas["arrays", structured.schema_id].entries
    assert [entry.name for entry in (step, loss, name)] == ["step", "loss", "name"]
    (inner,) = log.schemas["arrays", name.type].entries
    assert structured.data[name.offset :].decode("utf-32-le").rstrip("\0") == "abc"
    assert (inner.type, inner.detail) == (78, 4)


def test_a_domain_that_is_left_out_is_not_lost_to_later_sessions(record):
    from warpline.capture.session.agent_config import AgentConfig

    code = """
import nvtx
with nvtx.annotate("x", domain="loud"):
    print(type(nvtx.get_domain("loud")).__name__)
"""
    config = AgentConfig(domain_exclude=("loud",))
    (log,) = _run(record, code, config=config, prints="Domain")
    assert log.events == []


def test_a_session_in_the_same_process_can_end_and_another_begin(agent, tmp_path):
    first = raw_logs.make_session(tmp_path / "first")
    second = raw_logs.make_session(tmp_path / "second")
    code = """
import ctypes, os, sys
agent = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
first, second = (os.fsencode(path) for path in sys.argv[1:])
assert agent.wl_agent_attach(first) == 0
import nvtx
nvtx.get_domain("names").get_category_id("kind")
with nvtx.annotate("one"):
    nvtx.push_range("open at the end of the first")
    assert agent.wl_agent_detach() == 0
    with nvtx.annotate("between"):
        pass
    assert agent.wl_agent_attach(second) == 0
    with nvtx.annotate("two"):
        pass
    nvtx.pop_range()
assert agent.wl_agent_detach() == 0
"""
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(agent)}
    environment.pop("WARPLINE_SESSION", None)
    command = [sys.executable, "-c", code, str(first.folder), str(second.folder)]
    subprocess.run(command, env=environment, check=True, timeout=60)
    (one,) = raw_logs.decode(first.folder)
    (two,) = raw_logs.decode(second.folder)
    assert [event.name for event in one.events] == ["one", "open at the end of the first"]
    assert [(event.kind, event.name) for event in two.events] == [("push", "two"), ("pop", None)]
    for log in (one, two):
        assert log.categories == {("names", 1): "kind"}


def test_python_processes_and_threads_record_beside_each_other(record):
    code = """
import multiprocessing, threading, nvtx
def work(n):
    for i in range(200):
        with nvtx.annotate(f"{n}"): pass
if __name__ == "__main__":
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(n,)) for n in range(4, 6)]
    [p.start() for p in processes]; [p.join() for p in processes]
"""
    logs = _run(record, code)
    assert len({log.pid for log in logs}) == 3
    events = [event for log in logs for event in log.events]
    names = [str(event.name) for event in events if event.kind == "push"]
    assert sorted(names) == sorted(str(n) for n in range(6) for _ in range(200))


@pytest.mark.slow
@pytest.mark.parametrize(
    "version", ["0.2.11", "0.2.12", "0.2.13", "0.2.14", "0.2.15", "0.2.16", "0.2.17"]
)
def test_every_version_of_the_package(record, version, tmp_path):
    folder = tmp_path / "packages"
    wanted = ["--only-binary", ":all:", "--no-deps", f"nvtx=={version}"]
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *wanted]
    done = subprocess.run(install, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nvtx {version} cannot be installed: {done.stderr.splitlines()[-1]}")
    start = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import nvtx, runpy;"
        f"assert nvtx.__file__.startswith({str(folder)!r}), nvtx.__file__;"
        f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    )
    main, _ = _run(record, start)
    pushes = [event for event in main.events if event.kind == "push"]
    assert [(event.name, event.domain) for event in pushes] == RANGES
    assert sum(event.kind == "pop" for event in main.events) == len(pushes)
    assert main.categories == {("work", 1): "calls", ("objects", 1): "kind"}
