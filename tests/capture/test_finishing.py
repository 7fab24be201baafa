"""Finishing a session: its facts, failures and process; expected values are computed by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capture.finished import read, rows
from capture.raw_writer import ORIGIN_NS, ORIGIN_UTC_NS, Log, write_session

import warpline
from warpline import native
from warpline.capture.finishing.__main__ import main
from warpline.capture.finishing.finish import finish
from warpline.errors import CaptureError

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

RANGE = ("start_ns", "end_ns", "name", "is_truncated")


def test_notes_become_diagnostics(tmp_path: Path) -> None:
    log = Log()
    log.note(30, 2, "nvtxSync")
    log.note(20, 1, "libfoo.so")
    log.note(25, 5, "1-2")
    trace, finished = read(tmp_path, log, notes=["tool X had bound NVTX before"])
    assert rows(trace, "diagnostic", "time_ns", "severity", "text", "process_id") == [
        (20, "Info", "NVTX is recorded: libfoo.so", 0),
        (30, "Warning", "NVTX calls of this kind are not recorded: nvtxSync", 0),
    ]
    assert trace.meta.warnings == (
        "tool X had bound NVTX before",
        "NVTX calls of this kind are not recorded: nvtxSync",
    )
    assert finished.diagnostics == 2


def test_the_facts_of_the_session(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, Log(cut=3))
    meta = trace.meta
    assert (meta.format, meta.producer, meta.host) == ("warpline", "Warpline 9.9", "box")
    assert meta.command == "python 'train me.py'"
    assert meta.origin_utc_ns == ORIGIN_UTC_NS
    assert meta.span_ns == (0, 1000)
    assert meta.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert meta.software == {"driver": "580.1"}
    assert meta.lost == {}
    assert meta.warnings == (
        "3 texts and payloads longer than 65,535 bytes were truncated or dropped",
    )


def test_a_session_without_an_event_is_a_recording(tmp_path: Path) -> None:
    trace, finished = read(tmp_path)
    assert finished.ranges == finished.processes == 0
    assert finished.is_empty
    assert {"range", "mark", "process", "thread"} <= set(trace.tables)
    assert len(trace["range"]) == len(trace["mark"]) == 0
    assert not trace.has("kernel")


def test_what_was_not_asked_for_was_not_recorded(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, Log(), collected=[])
    assert not trace.has("range")


def test_a_session_whose_facts_are_gone(tmp_path: Path) -> None:
    log = Log(closed=None)
    log.push(10)
    log.pop(25)
    folder = write_session(tmp_path / "x.raw", log)
    (folder / "session.json").write_text('{"started_monotonic_ns": 1')
    finished = finish(folder, tmp_path / "x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    # The thread's record, at 0, is the first time that is known.
    assert rows(trace, "range", *RANGE) == [(10, 25, "range", False)]
    assert trace.meta.origin_utc_ns == ORIGIN_UTC_NS
    assert trace.meta.command is None
    assert finished.warnings[0].startswith("session.json is damaged")


@pytest.mark.parametrize("value", [None, "x", -1, 2**70, True, [], {}])
def test_nonsense_in_session_json_is_not_believed(tmp_path: Path, value: Any) -> None:
    log = Log()
    log.push(10)
    names = ("warpline", "command", "host", "started_utc_ns", "started_monotonic_ns", "notes")
    more = ("ended_monotonic_ns", "environment", "collected", "stopped_monotonic_ns")
    trace, finished = read(tmp_path, log, **dict.fromkeys((*names, *more), value))
    assert finished.ranges == len(trace["range"]) == 1


def test_a_folder_that_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is not an unfinished recording"):
        finish(tmp_path, tmp_path / "x.warpline")
    with pytest.raises(CaptureError, match="cannot read"):
        finish(tmp_path / "nowhere", tmp_path / "x.warpline")
    assert not (tmp_path / "x.warpline").exists()


def test_a_recording_that_cannot_be_written_names_what_is_kept(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "x.raw", Log())
    with pytest.raises(CaptureError, match="cannot write") as caught:
        finish(folder, tmp_path / "nowhere" / "x.warpline")
    assert caught.value.hint is not None
    assert f"warpline recover {folder}" in caught.value.hint


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    log = Log()
    for time_ns in range(5000):
        log.mark(time_ns)
    folder = write_session(tmp_path / "x.raw", log)
    code = (
        "import resource, signal, sys; from warpline.capture.finishing.__main__ import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "sys.exit(main(sys.argv[1:]))"
    )
    output = tmp_path / "x.warpline"
    words = [sys.executable, "-c", code, str(folder), "--output", str(output)]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    failed = json.loads(run.stdout)["failed"]
    assert ": File too large" in failed["message"]
    assert "warpline recover" in failed["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.raw"]


def test_the_process_says_how_far_it_is_and_imports_no_numpy(tmp_path: Path) -> None:
    log = Log()
    log.push(1)
    log.pop(2)
    folder = write_session(tmp_path / "x.raw", log)
    code = (
        "import sys; from warpline.capture.finishing.__main__ import main;"
        "status = main(sys.argv[1:]);"
        "assert not {'numpy', 'polars', 'warpline.api'} & set(sys.modules), sys.modules;"
        "sys.exit(status)"
    )
    output = tmp_path / "x.warpline"
    words = [str(folder), "--output", str(output), "--progress", "--remove"]
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    *parts, last = [json.loads(line) for line in run.stdout.splitlines()]
    assert parts
    assert all(0 <= part["progress"] <= 1 for part in parts)
    assert last["finished"]["ranges"] == 1
    assert output.exists()
    assert not folder.exists()


def test_a_failure_is_a_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "--output", str(tmp_path / "x")]) == 1
    assert "cannot read" in json.loads(capsys.readouterr().out)["failed"]["message"]


def test_the_tables_of_nsys_work_on_it(tmp_path: Path) -> None:
    log = Log()
    log.domain(1, "lib")
    log.push(0, "step")
    log.push(10, "inner", domain=1)
    log.pop(30, domain=1)
    log.pop(100)
    trace, _ = read(tmp_path, log)
    names = ("name", "total_ns")
    result = warpline.stats(trace, "nvtx_sum")
    columns = [result.columns[name].to_list() for name in names]
    assert list(zip(*columns, strict=True)) == [("step", 100), ("lib:inner", 20)]
    assert len(warpline.stats(trace, "nvtx_pushpop_trace")) == 2
    assert warpline.summary(trace).sections


def test_a_large_session_equals_a_plain_model(tmp_path: Path) -> None:
    """Pushes, pops and marks at random over threads and domains, against a stack in Python."""
    import random

    random_numbers = random.Random(7)
    logs = [Log(tid=100 + number, number=number) for number in range(4)]
    stacks: dict[tuple[int, int], list[tuple[int, str]]] = {}
    expected: list[tuple[int, int, str, int, bool]] = []
    last = 0
    for time_ns in range(0, 8000, 2):
        number, domain = random_numbers.randrange(4), random_numbers.randrange(3)
        stack = stacks.setdefault((number, domain), [])
        if random_numbers.random() < 0.5:
            name = f"name {random_numbers.randrange(50)}"
            logs[number].push(time_ns, name, domain=domain)
            stack.append((time_ns, name))
        else:
            logs[number].pop(time_ns, domain)
            if stack:
                start, name = stack.pop()
                expected.append((start, time_ns, name, number, False))
        last = time_ns
    for (number, _), stack in stacks.items():
        expected += [(start, last + 1, name, number, True) for start, name in stack]
    for log in logs:
        log.header["closed"] = last + 1
    trace, _ = read(tmp_path, *logs, ended_monotonic_ns=ORIGIN_NS + last + 1)
    found = rows(trace, "range", "start_ns", "end_ns", "name", "thread_id", "is_truncated")
    assert found == sorted(expected)
