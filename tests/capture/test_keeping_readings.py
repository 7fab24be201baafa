"""The state of GPUs and machine in recordings that keep their end: rows, disk, and copies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from capture.finished import rows
from capture.raw_writer import ORIGIN_NS, write_session
from capture.test_finishing_health import SECOND, logs, reading

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.capture.flags import parsing
from warpline.capture.session.holes import data_from
from warpline.capture.session.keeping import copy_session
from warpline.capture.session.readings import (
    ReadingsWriter,
    path_of,
    read_readings,
    trim_readings,
)

HOUR = 3600
GPU, HOST = "gpu_health", "host_health"


def written(folder: Path, table: str, seconds: int, period_ns: int = SECOND) -> ReadingsWriter:
    """Write a row for each second; its clock is the number of the second."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(path_of(folder, table), flags)
    facts = {"period_ns": period_ns, "gpus": [{"uuids": [], "name": "x" * 5000}]}
    writer = ReadingsWriter(descriptor, table, facts)
    key = {} if table == GPU else {"pid": 0}
    value = "sm_clock_hz" if table == GPU else "cpu_clock_hz"
    writer.write(reading(0, at, **{value: at}, **key) for at in range(seconds))
    return writer


def clocks(folder: Path) -> list[int]:
    found = read_readings(folder, GPU)
    assert found is not None
    assert not found.is_cut
    return list(found.columns["sm_clock_hz"])


@pytest.fixture
def holes(tmp_path: Path) -> None:
    """Skip where the file system of the tests has no holes."""
    probe = tmp_path / "probe"
    with probe.open("wb+") as file:
        file.truncate(1 << 20)
        file.seek(1 << 20)
        file.write(b"1")
        file.flush()
        if not data_from(file.fileno(), 0):
            pytest.skip("the file system has no holes")


def test_rows_long_before_are_removed_and_take_no_disk(tmp_path: Path, holes: None) -> None:
    writer = written(tmp_path, GPU, HOUR)
    path = path_of(tmp_path, GPU)
    size = path.stat().st_size
    at = ORIGIN_NS + 3000 * SECOND
    trim_readings(tmp_path, at)
    assert path.stat().st_blocks * 512 < 0.3 * size
    found = clocks(tmp_path)
    assert found == list(range(found[0], HOUR))
    assert 2950 < found[0] <= 2998  # two periods before, and the rest of a block
    before = path.read_bytes()
    trim_readings(tmp_path, at)
    assert path.read_bytes() == before  # there was nothing more
    writer.write([reading(0, HOUR, sm_clock_hz=HOUR)])
    assert clocks(tmp_path)[-1] == HOUR
    for more in range(500):  # in small steps, no blocks are left behind
        trim_readings(tmp_path, at + more * SECOND)
    assert path.stat().st_blocks * 512 < 0.15 * size
    assert 3450 < clocks(tmp_path)[0] <= 3497
    copied = tmp_path / "copy"
    copied.mkdir()
    copy_session(tmp_path, copied)
    assert clocks(copied) == clocks(tmp_path)
    assert path_of(copied, GPU).stat().st_blocks <= path.stat().st_blocks + 8


def test_nothing_is_removed_too_early_or_from_damaged_files(tmp_path: Path) -> None:
    written(tmp_path, GPU, 100)
    path_of(tmp_path, HOST).write_bytes(b"{}\n" + b"x" * 100_000)
    before = [path_of(tmp_path, table).read_bytes() for table in (GPU, HOST)]
    trim_readings(tmp_path, ORIGIN_NS - HOUR * SECOND)
    assert [path_of(tmp_path, table).read_bytes() for table in (GPU, HOST)] == before
    trim_readings(tmp_path / "gone", ORIGIN_NS)


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_a_recording_has_the_rows_of_the_kept_time_and_one_before(tmp_path: Path) -> None:
    session = write_session(
        tmp_path / "x.warpline.raw",
        *logs(),
        collected=["cuda"],
        ended_monotonic_ns=ORIGIN_NS + 100 * SECOND,
        kept_from_monotonic_ns=ORIGIN_NS + 90 * SECOND,
    )
    written(session, HOST, 100)
    finish(session, tmp_path / "x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    assert [ns for (ns,) in rows(trace, HOST, "cpu_clock_hz")] == list(range(89, 100))


def test_the_state_of_gpus_is_kept_on_request() -> None:
    keeping = ["--keep-last=3s"]
    assert parsing.parse([*keeping, "--", "true"]).gpu_health == 0
    assert parsing.parse([*keeping, "--gpu-health=2", "--", "true"]).gpu_health == 2
    assert parsing.parse([*keeping, "--gpu-health=off", "--", "true"]).gpu_health == 0


def test_a_file_that_is_begun_just_now_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_of(tmp_path, GPU).touch()
    size_of = os.fstat

    def size_after_writing(descriptor: int) -> os.stat_result:
        monkeypatch.undo()
        written(tmp_path, GPU, 3)
        return size_of(descriptor)

    monkeypatch.setattr(os, "fstat", size_after_writing)
    assert clocks(tmp_path) == [0, 1, 2]


def test_a_copy_has_what_pytorch_wrote(tmp_path: Path) -> None:
    (tmp_path / "session" / "pytorch").mkdir(parents=True)
    (tmp_path / "session" / "pytorch" / "7-modules.jsonl").write_text("[]\n")
    (tmp_path / "session" / "other").symlink_to(tmp_path)  # nothing else is followed
    (tmp_path / "copy").mkdir()
    copy_session(tmp_path / "session", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["pytorch"]
    assert (tmp_path / "copy" / "pytorch" / "7-modules.jsonl").read_text() == "[]\n"
