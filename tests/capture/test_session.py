"""The session directory: its content, and unique names."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import re
import stat
import struct
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from warpline.capture.session import control, facts, session, standing
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import ControlFile, ControlPage, RangeMode, State
from warpline.capture.session.names import (
    check_room,
    expand,
    reserve,
    unset_variables,
    with_ending,
)
from warpline.capture.session.session import not_writable
from warpline.capture.session.standing import StandingFile, StandingPage
from warpline.errors import CaptureError, UsageError

HEADER = Path(__file__).parents[2] / "native" / "raw" / "warpline_raw.h"


@pytest.fixture
def folder(tmp_path):
    return session.reserve_folder(tmp_path / "run.warpline")


def pages(folder: Path, **settings: object) -> ControlFile:
    return ControlFile.create(folder, **settings)  # type: ignore[arg-type]


def test_the_control_page_is_that_of_the_header():
    text = HEADER.read_text(encoding="utf-8")
    body = re.search(r"struct ControlPage \{(.*?)\n\};", text, re.DOTALL)
    assert body is not None
    declared = re.findall(r"^  ([\w:]+) (\w+)(?:\[(\w+)\])?;", body[1], re.MULTILINE)
    sizes = {"std::uint32_t": 4, "std::uint64_t": 8, "std::int64_t": 8, "char": 1}
    sizes |= {"ControlSlot": 8, "DrainState": 4}
    counts = {"kControlSlots": control.CONTROL_SLOTS, "kControlSteps": control.CONTROL_STEPS}
    offset = 0
    for kind, name, count in declared:
        assert getattr(ControlPage, name).offset == offset
        offset += sizes[kind] * (counts.get(count) or int(count or 1))
    assert ctypes.sizeof(ControlPage) == offset <= control.CONTROL_BYTES
    assert [name for _, name, _ in declared] == [field[0] for field in ControlPage._fields_]


def test_the_page_to_stand_by_for_is_that_of_the_header():
    text = HEADER.read_text(encoding="utf-8")
    body = re.search(r"struct StandingPage \{(.*?)\n\};", text, re.DOTALL)
    assert body is not None
    declared = re.findall(r"^  ([\w:]+) (\w+)((?:\[\w+\])*);", body[1], re.MULTILINE)
    counts = {"kStandingFolderBytes": standing.FOLDER_BYTES}
    offset = 0
    for kind, name, dimensions in declared:
        assert getattr(StandingPage, name).offset == offset
        sizes = (counts.get(word) or int(word) for word in re.findall(r"\w+", dimensions))
        offset += {"std::uint32_t": 4, "char": 1}[kind] * math.prod(sizes)
    assert ctypes.sizeof(StandingPage) == offset == standing.STANDING_BYTES
    assert [name for _, name, _ in declared] == [field[0] for field in StandingPage._fields_]
    for name in ("STANDING_MAGIC", "STANDING_BYTES", "STANDING_OVER"):
        value = re.search(rf"k{name.title().replace('_', '')} = (\w+);", text)
        assert value is not None
        assert int(value[1], 0) == getattr(standing, name)


def test_recordings_are_announced_and_withdrawn(folder):
    page = StandingFile.create(folder)
    assert page.announced is None
    for number in range(3):
        page.announce(folder / str(number))
        assert page.announced == folder / str(number)
        with pytest.raises(CaptureError, match="recording already"):
            page.announce(folder / "other")
        page.withdraw()
        page.withdraw()
        assert page.announced is None
    page.close()
    page.close()
    (number,) = struct.unpack_from("<I", (folder / "standing").read_bytes(), 8)
    assert number == standing.STANDING_OVER


def test_a_page_begins_as_asked_for(folder):
    page = pages(folder, state=State.WAITING, mode=RangeMode.NVTX, windows_wanted=3)
    assert (folder / "control").stat().st_size == control.CONTROL_BYTES
    assert page.state is State.WAITING
    assert page.mode is RangeMode.NVTX
    assert page.counters() == control.Counters(0, 0, 0, 0, 0, 0, False, 0, "")
    word = struct.unpack_from("<Q", (folder / "control").read_bytes(), 8)[0]
    assert word == State.WAITING | RangeMode.NVTX << 8
    assert struct.unpack_from("<Q", (folder / "control").read_bytes(), 24)[0] == 3


def test_the_state_is_seen_by_others_and_leaves_the_rest_alone(folder):
    mine = pages(folder, mode=RangeMode.NVTX)
    theirs = ControlFile.open(folder)
    theirs._put("<I", control._OPEN_AT, 7)
    mine.state = State.STOPPED
    assert theirs.state is State.STOPPED
    assert theirs.mode is RangeMode.NVTX
    assert theirs.counters().windows_open == 7


def hold(page: ControlFile, *held: tuple[int, int]) -> None:
    """Fill slots as agents would: (pid, ranges open)."""
    for index, (pid, windows) in enumerate(held):
        page._put("<II", control._SLOTS_AT + index * 8, pid, windows)
    page._put("<I", control._OPEN_AT, sum(windows for _, windows in held))


def test_ranges_of_the_dead_are_closed(folder):
    page = pages(folder, mode=RangeMode.NVTX, windows_wanted=2)
    hold(page, (11, 1), (12, 1), (11, 1))
    page.release(11)
    assert page.holders() == {12: 1}
    assert (page.counters().windows_open, page.counters().windows_done) == (1, 1)
    assert page.state.name == "RECORDING"
    page.release(99)
    page.release(12)
    assert page.counters().windows_open == 0
    assert page.state.name == "STOPPED"


def test_a_miscount_is_noticed_and_put_right(folder):
    page = pages(folder, mode=RangeMode.NVTX)
    hold(page, (11, 2))
    assert page.is_counted_right()
    page._put("<I", control._OPEN_AT, 5)
    assert not page.is_counted_right()
    page.recount()
    assert page.counters().windows_open == 2


@pytest.mark.parametrize("content", [b"", b"x" * 4096, b"x" * 5000])
def test_what_is_no_control_page_is_refused(folder, content):
    (folder / "control").write_bytes(content)
    with pytest.raises(CaptureError, match="is not a control page"):
        ControlFile.open(folder)


def test_a_session_is_only_for_its_user(tmp_path, folder):
    made = session.create_session(folder, AgentConfig(), {"version": 1})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "control").stat().st_mode) == 0o600
    made.end(program={"pid": 1})
    assert made.control.state is State.STOPPED
    found = facts.read_facts(folder)
    assert found["program"] == {"pid": 1}
    assert found["ended_monotonic_ns"] > 0
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_agents_configuration_is_lines_that_cannot_be_broken():
    config = AgentConfig(
        domain_include=("a=b\nc", "ü"), range_name="x%\n", range_domain="*", nvtx=False
    )
    pairs = [line.split("=", 1) for line in config.text().splitlines()]
    assert [(key, unquote(value)) for key, value in pairs] == [
        ("version", "1"),
        ("nvtx", "0"),
        ("domain_include", "a=b\nc"),
        ("domain_include", "ü"),
        ("range_name", "x%\n"),
        ("range_domain", "*"),
        ("block_bytes", "1048576"),
        ("keep_free_bytes", "67108864"),
    ]


def test_facts_take_any_text(folder):
    facts.write_facts(folder, {"command": ["a\udc80b", "ü"]})
    assert facts.read_facts(folder)["command"] == ["a\udc80b", "ü"]


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_damaged_facts_are_an_error(folder, content):
    (folder / "session.json").write_text(content)
    with pytest.raises(CaptureError, match="is damaged"):
        facts.read_facts(folder)


def test_folders_never_meet(tmp_path):
    output = tmp_path / "run.warpline"
    found = [session.reserve_folder(output).name for _ in range(3)]
    assert found == ["run.warpline.raw", "run.warpline.2.raw", "run.warpline.3.raw"]


def test_logs_are_measured_by_their_headers(folder):
    for name, events, lost in (("1-2-0.wlraw", 5, 1), ("1-2-1.wlraw", 7, 0)):
        head = bytearray(4096)
        head[:8] = session.LOG_MAGIC
        struct.pack_into("<QQ", head, 64, events, lost)
        (folder / name).write_bytes(head)
    (folder / "cut.wlraw").write_bytes(b"WL")
    found = session.measure(folder)
    assert (found.events, found.dropped, found.logs) == (12, 1, 3)
    assert session.measure(folder / "none") == session.Volume(0, 0, 0, 0)


# --- Names ---------------------------------------------------------------------------------------


def name(tmp_path: Path, pattern: str | None, *, overwrite: bool = False) -> str:
    """Return the name chosen for a recording, and let its session be gone."""
    place = reserve(
        None if pattern is None else f"{tmp_path}/{pattern}",
        {"RANK": "3"},
        pid=42,
        overwrite=overwrite,
        warn=pytest.fail,
    )
    place.folder.rmdir()
    return place.output.name


def test_patterns_are_those_of_nsys(tmp_path):
    assert name(tmp_path, "a%p-%q{RANK}%%x") == "a42-3%x.warpline"
    assert name(tmp_path, "%h") == f"{os.uname().nodename}.warpline"
    assert expand("%q{NONE}|%n", {}, pid=1, number=7) == "|7"
    assert unset_variables("%q{NONE}%q{RANK}%%q{X}", {"RANK": "3"}) == ["NONE"]
    with pytest.raises(UsageError, match="unknown pattern %z"):
        expand("a%z", {}, pid=1, number=1)


@pytest.mark.parametrize("given", ["run", "run.warpline", "run.nsys-rep", "run.qdrep"])
def test_there_is_one_ending(given):
    assert with_ending(given) == "run.warpline"


@pytest.mark.parametrize(
    ("given", "instead"),
    [(".", "./NAME"), ("out/", "out/NAME"), ("out/..", "out/../NAME"), ("/", "/NAME")],
)
def test_a_folder_is_no_name(tmp_path, given, instead):
    with pytest.raises(UsageError, match="is a directory") as caught:
        reserve(given, {}, pid=1, overwrite=True, warn=pytest.fail)
    assert caught.value.hint == f"use -o {instead}"


def test_numbered_names_never_overwrite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [
        reserve(None, {}, pid=1, overwrite=False, warn=pytest.fail).output.name for _ in range(2)
    ]
    assert made == ["report1.warpline", "report2.warpline"]
    (tmp_path / "x1.warpline").touch()
    assert name(tmp_path, "x%n") == "x2.warpline"


def test_a_name_that_is_taken_is_refused(tmp_path):
    (tmp_path / "run.warpline").touch()
    with pytest.raises(UsageError) as caught:
        name(tmp_path, "run")
    assert caught.value.message.endswith("run.warpline already exists")
    assert "--force-overwrite" in (caught.value.hint or "")
    assert name(tmp_path, "run", overwrite=True) == "run.warpline"
    (tmp_path / "dir.warpline").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        name(tmp_path, "dir", overwrite=True)


def test_a_name_that_another_session_will_take_gets_a_number(tmp_path):
    said: list[str] = []

    def choose() -> tuple[str, Path]:
        place = reserve(f"{tmp_path}/r%%", {}, pid=1, overwrite=True, warn=said.append)
        return place.output.name, place.folder

    name, folder = choose()
    assert (name, said) == ("r%.warpline", [])
    found = {"launcher_pid": os.getpid(), "host": os.uname().nodename}
    facts.write_facts(folder, found)
    assert choose()[0] == "r%.1.warpline"
    assert said.pop().startswith("another process is recording to r%.warpline")
    facts.write_facts(folder, {**found, "host": "elsewhere"})
    assert choose()[0] == "r%.2.warpline"
    assert said.pop()
    facts.write_facts(folder, {**found, "launcher_pid": 2**22 + 1})
    assert choose()[0] == "r%.warpline"
    assert said == [f"{folder} is an unfinished recording; run warpline recover {folder}"]


def test_two_at_once_find_two_names(tmp_path):
    code = (
        "import sys; from warpline.capture.session.names import reserve\n"
        "for _ in range(20): print(reserve(sys.argv[1], {}, pid=1, overwrite=False, warn=print)"
        ".output.name)"
    )
    words = [sys.executable, "-c", code, f"{tmp_path}/r%n"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [line for process in running for line in process.communicate()[0].split()]
    assert len(found) == len(set(found)) == 40


@pytest.mark.parametrize(
    ("free", "error", "warned"), [(1 << 40, False, 0), (500 << 20, False, 1), (1 << 20, True, 0)]
)
def test_room_is_looked_for(tmp_path, monkeypatch, free, error, warned):
    class Usage:
        def __init__(self) -> None:
            self.free = free

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage())
    said: list[str] = []
    if error:
        with pytest.raises(CaptureError, match="free"):
            check_room(tmp_path, said.append)
    else:
        check_room(tmp_path, said.append)
    assert len(said) == warned


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(CaptureError, match="no such directory"):
        check_room(tmp_path / "none", pytest.fail)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space, or record to another directory"),
        (errno.EROFS, "record to another directory"),
    ],
)
def test_a_session_that_cannot_be_written_is_one_line_with_a_hint(number, hint):
    error = not_writable(Path("run.warpline.raw"), OSError(number, os.strerror(number)))
    assert error.message == f"cannot write to run.warpline.raw: {os.strerror(number)}"
    assert error.hint == hint


def test_numbered_names_skip_existing_exports(tmp_path):
    (tmp_path / "r1.parquet").mkdir()
    (tmp_path / "r2.perfetto.json").touch()
    kinds = ("parquet", "perfetto")
    place = reserve(f"{tmp_path}/r%n", {}, pid=1, overwrite=False, warn=pytest.fail, exports=kinds)
    assert place.output.name == "r3.warpline"
