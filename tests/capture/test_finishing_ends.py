"""Where open ranges end, from the launcher's notes, and how it is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from capture.finished import read, rows
from capture.raw_writer import ORIGIN_NS, Log

import warpline
from warpline import native
from warpline.capture.session.control import (
    CONTROL_MAGIC,
    CONTROL_VERSION,
    ControlFile,
    ControlPage,
)
from warpline.trace import ProcessEnd, Trace, TraceMeta

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

SAMPLE_BEGIN, SAMPLE_END = 6, 7  # of Note in native/raw/records.toml
KILLED, SEGFAULT, STATUS_3 = 9, 11, 3 << 8


def ended(pid: int, at: int, status: int | None = KILLED) -> dict[str, Any]:
    """Return a note of the launcher's, its time from the origin."""
    return {"pid": pid, "ended_ns": ORIGIN_NS + at, "status": status}


def died(
    folder: Path,
    *logs: Log,
    notes: tuple[object, ...] = (),
    attached: tuple[int, ...] = (),
    heartbeat: int = 0,
    **facts: Any,
) -> Trace:
    """Return the recording of a session with notes of ends and a control page."""
    session = folder / "x.warpline.raw"
    session.mkdir()
    lines = [note if isinstance(note, str) else json.dumps(note) for note in notes]
    (session / "ends").write_text("\n".join(lines))
    ControlFile.create(session).close()
    page = ControlPage(magic=CONTROL_MAGIC, version=CONTROL_VERSION)
    page.heartbeat_ns = ORIGIN_NS + heartbeat if heartbeat else 0
    for place, pid in enumerate(attached):
        page.slots[place].pid = pid
    (session / "control").write_bytes(bytes(page).ljust(4096, b"\0"))
    return read(folder, *logs, **facts)[0]


def hung(begin: int = 10, **more: Any) -> Log:
    """Return the log of a thread that opened a range and did nothing more."""
    log = Log(closed=None, incarnation=ORIGIN_NS, **more)
    log.push(begin, "step_1")
    return log


def the_end(trace: Trace) -> tuple[int, ProcessEnd]:
    """Return when the one range ended, and the one end that is told."""
    ((end_ns,),) = rows(trace, "range", "end_ns")
    (end,) = trace.meta.ends
    return end_ns, end


@pytest.mark.parametrize(
    ("status", "cause", "how", "told"),
    [
        (KILLED, "killed", ("SIGKILL", None), "was killed (SIGKILL) with 1 range open"),
        (SEGFAULT, "crashed", ("SIGSEGV", None), "crashed (SIGSEGV) with 1 range open"),
        (SEGFAULT | 128, "crashed", ("SIGSEGV", None), "crashed (SIGSEGV) with 1 range open"),
        (STATUS_3, "exited", (None, 3), "exited with status 3 and 1 range open"),
        (
            None,
            "died",
            (None, None),
            "ended abruptly with 1 range open, cut when its end was detected",
        ),
    ],
)
def test_a_noted_end(tmp_path, status, cause, how, told):
    trace = died(tmp_path, hung(), notes=(ended(100, 800, status),))
    end_ns, end = the_end(trace)
    assert (end_ns, end.ended_ns, end.opened_ns, end.path) == (800, 800, 10, ("step_1",))
    assert (end.cause, (end.signal, end.exit_status), end.name) == (cause, how, "prog")
    assert rows(trace, "range", "is_truncated") == [(True,)]
    assert told in trace.meta.warnings[0]


def test_no_range_ends_before_a_record_of_its_process(tmp_path):
    log, other = hung(), Log(closed=None, incarnation=ORIGIN_NS, tid=101, number=1)
    other.mark(900)
    trace = died(tmp_path, log, other, notes=(ended(100, 800),))
    assert rows(trace, "range", "end_ns") == [(900,)]


def test_recording_stopped_first(tmp_path):
    facts: dict[str, Any] = {"stopped_monotonic_ns": ORIGIN_NS + 500, "stopped_by": "interrupt"}
    trace = died(tmp_path, hung(), notes=(ended(100, 800),), **facts)
    end_ns, end = the_end(trace)
    assert (end_ns, end.cause, end.stopped_by) == (500, "stopped", "interrupt")
    assert trace.meta.warnings == ("process 100 had 1 range open when recording stopped",)


def test_the_process_died_before_recording_stopped(tmp_path):
    facts: dict[str, Any] = {"stopped_monotonic_ns": ORIGIN_NS + 900}
    end_ns, end = the_end(died(tmp_path, hung(), notes=(ended(100, 800),), **facts))
    assert (end_ns, end.cause, end.stopped_by) == (800, "killed", None)


def test_an_end_in_order_is_when_the_agent_said_so(tmp_path):
    log = Log(closed=400, incarnation=ORIGIN_NS)
    log.push(10, "step_1")
    trace = died(tmp_path, log, notes=(ended(100, 800, 0),))
    end_ns, end = the_end(trace)
    assert (end_ns, end.cause, end.exit_status) == (400, "exited", 0)
    assert trace.meta.warnings == ()


def test_a_program_that_is_killed_as_it_ends(tmp_path):
    log = Log(closed=400, incarnation=ORIGIN_NS)
    log.push(10, "step_1")
    end_ns, end = the_end(died(tmp_path, log, notes=(ended(100, 800),)))
    assert (end_ns, end.cause) == (800, "killed")


@pytest.mark.parametrize("is_over", [True, False])
def test_without_a_note_it_lived_when_the_launcher_last_looked(tmp_path, is_over):
    facts: dict[str, Any] = {} if is_over else {"ended_monotonic_ns": None}
    trace = died(tmp_path, hung(), attached=(7, 100), heartbeat=700, **facts)
    end_ns, end = the_end(trace)
    assert (end_ns, end.cause) == (700, "died" if is_over else "unwatched")
    assert "when last seen running, cut there" in trace.meta.warnings[0]
    assert trace.meta.span_ns == (0, 1000 if is_over else 700)


@pytest.mark.parametrize(
    "page",
    [
        {"attached": (7,), "heartbeat": 700},  # it has left, or was never there
        {"attached": (100,)},  # nobody looked
    ],
)
def test_a_process_that_nobody_saw(tmp_path, page):
    end_ns, end = the_end(died(tmp_path, hung(), **page))
    assert (end_ns, end.cause) == (10, "died")


def test_a_process_of_another_machine_is_not_the_one_with_its_pid_here(tmp_path):
    page: dict[str, Any] = {"attached": (100,), "heartbeat": 700}
    trace = died(tmp_path, hung(host="far"), notes=(ended(100, 800),), **page)
    assert the_end(trace)[0] == 10


def test_another_program_in_the_same_process(tmp_path):
    after = Log(closed=900, incarnation=ORIGIN_NS + 300)
    after.mark(400)
    trace = died(tmp_path, hung(), after, notes=(ended(100, 950, 0),))
    end_ns, end = the_end(trace)
    assert (end_ns, end.cause) == (300, "replaced")


def test_a_pid_that_is_used_again(tmp_path):
    again = Log(closed=None, incarnation=ORIGIN_NS + 300)
    again.push(400, "step_1")
    notes = (ended(100, 200, SEGFAULT), ended(100, 800))
    trace = died(tmp_path, hung(), again, notes=notes)
    assert rows(trace, "range", "end_ns") == [(200,), (800,)]
    assert [(end.ended_ns, end.signal) for end in trace.meta.ends] == [
        (200, "SIGSEGV"),
        (800, "SIGKILL"),
    ]


def test_a_rank_that_is_killed_says_so_for_itself_alone(tmp_path):
    other = Log(pid=200, tid=200, closed=900, incarnation=ORIGIN_NS)
    other.push(20, "step_1")
    other.pop(890)
    trace = died(tmp_path, hung(), other, notes=(ended(100, 500), ended(200, 950, 0)))
    assert rows(trace, "range", "process_id", "end_ns", "is_truncated") == [
        (0, 500, True),
        (1, 890, False),
    ]
    assert [end.pid for end in trace.meta.ends] == [100]


def test_what_others_end_is_not_the_end_of_a_capture_range_of_its_own(tmp_path):
    log, other = Log(closed=None, incarnation=ORIGIN_NS), Log(pid=200, incarnation=ORIGIN_NS)
    log.note(5, SAMPLE_BEGIN, "")
    log.push(10, "step_1")
    other.note(5, SAMPLE_BEGIN, "")
    other.mark(30)
    other.note(50, SAMPLE_END, "")
    other.window(50, opens=False)
    facts: dict[str, Any] = {"options": {"capture_range": "nvtx"}}
    trace = died(tmp_path, log, other, notes=(ended(100, 800),), **facts)
    assert the_end(trace)[0] == 800
    assert trace.meta.windows_ns == ((5, 800),)


def test_a_capture_range_that_has_ended_ends_what_is_open(tmp_path):
    log = Log(closed=None, incarnation=ORIGIN_NS)
    log.note(5, SAMPLE_BEGIN, "")
    log.push(10, "step_1")
    log.note(50, SAMPLE_END, "")
    log.window(50, opens=False)
    facts: dict[str, Any] = {"options": {"capture_range": "nvtx"}}
    trace = died(tmp_path, log, notes=(ended(100, 800),), **facts)
    assert rows(trace, "range", "end_ns") == [(50,)]
    (end,) = trace.meta.ends
    assert (end.cause, end.path, end.opened_ns) == ("killed", (), None)


def test_a_time_window_that_the_launcher_ended(tmp_path):
    facts: dict[str, Any] = {
        "options": {"duty": 0.1},
        "time_windows": [[ORIGIN_NS + 5, ORIGIN_NS + 60]],
    }
    trace = died(tmp_path, hung(), notes=(ended(100, 800),), **facts)
    assert rows(trace, "range", "end_ns") == [(60,)]


def test_where_it_was(tmp_path):
    """The main thread counts; what any thread may end comes after what was pushed."""
    log = hung()
    log.push(20, "backward")
    log.start(30, 1, "started")
    other = Log(closed=None, incarnation=ORIGIN_NS, tid=101, number=1)
    other.push(5, "loader")
    (end,) = died(tmp_path, log, other, notes=(ended(100, 800),)).meta.ends
    assert (end.path, end.tid, end.open_ranges) == (("step_1", "backward"), 100, 4)
    assert (end.opened_ns, end.last_event_ns) == (20, 30)


def test_of_many_nested_ranges_the_first_and_the_last_are_told(tmp_path):
    log = Log(closed=None, incarnation=ORIGIN_NS)
    for depth in range(50):
        log.push(10 + depth, f"level {depth}")
    (end,) = died(tmp_path, log, notes=(ended(100, 800),)).meta.ends
    assert end.path == (*(f"level {depth}" for depth in range(7)), "level 49")
    assert end.open_ranges == 50


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[1]",
        "[" * 100_000,
        '{"pid": 100}',
        '{"pid": 100, "ended_ns": -5}',
        '{"pid": 100, "ended_ns": 1e30}',
        '{"pid": "100", "ended_ns": 700}',
        '{"pid": 100, "ended_ns": 9223372036854775807}',
    ],
)
def test_a_damaged_note_spoils_no_other(tmp_path, line):
    trace = died(tmp_path, hung(), notes=(line, ended(100, 800)))
    assert the_end(trace)[0] == 800


def test_old_sessions_have_neither_notes_nor_a_look(tmp_path):
    trace, _ = read(tmp_path, hung())
    assert rows(trace, "range", "end_ns") == [(10,)]


def test_how_it_ended_is_kept_when_a_recording_is_written_again(tmp_path):
    trace = died(tmp_path, hung(), notes=(ended(100, 800),))
    warpline.export(trace, tmp_path / "again.warpline", "warpline")
    assert warpline.open(tmp_path / "again.warpline").meta.ends == trace.meta.ends


def test_the_ends_of_several_recordings_are_moved_with_their_times(tmp_path):
    for name, at in (("a", 800), ("b", 600)):
        (tmp_path / name).mkdir()
        died(tmp_path / name, hung(), notes=(ended(100, at),))
    paths = [tmp_path / name / "x.warpline" for name in "ab"]
    ends = warpline.open(*paths).meta.ends
    assert [end.ended_ns for end in ends] == [600, 800]


def test_a_recording_without_ends_is_read(tmp_path):
    trace, _ = read(tmp_path, Log())
    assert trace.meta.ends == ()
    assert TraceMeta((), "x").ends == ()
