"""The progress bar: on a terminal only, after a second, and gone when the work is done."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
import threading
from argparse import Namespace

import pytest

from warpline import progress
from warpline.cli import bar, main

START = """
import sys
from warpline.documents import tables
from warpline.cli import bar, main
bar.DELAY_S = float(sys.argv[1])
def interrupt(*_):
    raise KeyboardInterrupt
if sys.argv[2] == "interrupt":
    tables.compute = interrupt
status = main(sys.argv[3:])
print("rich" if "rich" in sys.modules else "light")
sys.exit(status)
"""
WORK = """
from argparse import Namespace
from warpline import progress
from warpline.cli import bar, talk
bar.DELAY_S = 0
with bar.shown(Namespace()), progress.task("Work [red]", 3) as advance:
    advance(1)
    talk.note("a line")
"""
HIDE_CURSOR, ERASE_LINE = "\x1b[?25l", "\x1b[2K"


def on_a_terminal(*words, status=0, **environ):
    """Return what Python writes to a terminal of 60 columns."""
    child, terminal = pty.fork()
    if not child:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(COLUMNS="60", TERM="xterm", **environ)
        os.execv(sys.executable, [sys.executable, "-c", *words])
    written = b""
    with contextlib.suppress(OSError):  # how Linux says that the other side is closed
        while block := os.read(terminal, 4096):
            written += block
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
    os.close(terminal)
    return written.decode()


def test_a_terminal_sees_a_bar_that_goes_away(bad, tmp_path):
    command = ("stats", "-r", "nvtx_sum", "-o", str(tmp_path / "answer.csv"), bad)
    shown = on_a_terminal(START, "0", "", *command)
    assert "Reading pageable_h2d" in shown
    assert "Computing tables" in shown
    assert HIDE_CURSOR not in shown
    assert "Computing" not in shown.rpartition(ERASE_LINE)[2]


def test_a_short_task_shows_nothing_and_loads_nothing(bad, tmp_path):
    command = ("stats", "-r", "nvtx_sum", "-o", str(tmp_path / "answer.csv"), bad)
    shown = on_a_terminal(START, "60", "", *command)
    assert "Computing" not in shown
    assert shown.splitlines()[-1] == "light"


def test_an_interrupt_leaves_a_clean_terminal(bad):
    shown = on_a_terminal(START, "0", "interrupt", "stats", "-r", "nvtx_sum", bad, status=130)
    assert "Computing tables" in shown
    assert "Traceback" not in shown
    assert shown.rpartition(ERASE_LINE)[2].strip() == "rich"


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}])
def test_a_line_on_stderr_interrupts_the_bar(environ):
    shown = on_a_terminal(WORK, **environ)
    assert "Work [red]" in shown
    assert f"{ERASE_LINE}note: a line\r\n" in shown
    assert ("\x1b[38" in shown or "\x1b[3" in shown) is not bool(environ)


def test_nobody_who_cannot_see_it_or_wants_it_gets_a_bar(monkeypatch):
    def is_shown(**args):
        return not isinstance(bar.shown(Namespace(**args)), contextlib.nullcontext)

    monkeypatch.setenv("TERM", "xterm")
    assert not is_shown()  # no terminal here
    monkeypatch.setattr(bar, "_is_terminal", lambda: True)
    assert is_shown()
    assert is_shown(quiet=False)
    assert not is_shown(quiet=True)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_shown()


def test_a_pipe_gets_nothing(run, bad, monkeypatch):
    monkeypatch.setattr(bar, "DELAY_S", 0)
    assert "Computing" not in run("stats", "-r", "nvtx_sum", bad).err


def test_library_users_and_other_threads_notice_nothing():
    seen: list[object] = []

    @contextlib.contextmanager
    def observer(title, total):
        seen.append((title, total))
        yield seen.append
        seen.append("end")

    def work():
        with progress.task("Elsewhere") as advance:
            advance(1)

    work()
    with progress.observed(observer):
        other = threading.Thread(target=work)
        other.start()
        other.join()
        with progress.task("Here", 2) as advance:
            advance(2)
    work()
    assert seen == [("Here", 2), 2, "end"]


def test_reading_reports_every_byte(tmp_path):
    path = tmp_path / "trace.json"
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{event}]}}')
    seen: list[object] = []

    @contextlib.contextmanager
    def observer(title, total):
        seen.append((title, total))
        yield seen.append

    with progress.observed(observer):
        assert (
            main(["stats", "-q", "-r", "recording", "-o", str(tmp_path / "o.csv"), str(path)]) == 0
        )
    assert seen[:2] == [("Reading trace.json", path.stat().st_size), path.stat().st_size]


def test_the_bar_stays_away_while_a_line_is_written(monkeypatch):
    drawn: list[str] = []
    ours = bar._Bar(0)
    monkeypatch.setattr(bar, "_new_progress", lambda: Drawn(drawn))
    with ours.task("Work", None):
        assert drawn
        with ours.hidden():
            before = len(drawn)
            other = threading.Thread(target=ours._draw)
            other.start()
            other.join(0.3)  # it waits for us
            assert len(drawn) == before
        other.join()
        assert len(drawn) > before


class Drawn:
    """Counts what is drawn in place of rich's bar."""

    def __init__(self, drawn: list[str]):
        self.drawn = drawn

    def start(self):
        self.drawn.append("start")

    def refresh(self):
        self.drawn.append("refresh")

    def add_task(self, *_, **__):
        return 1

    def update(self, *_, **__):
        pass

    def stop(self):
        pass
