"""What ``warpline top`` shows: keys, the end of a recording, and what cannot be shown."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from live.conftest import WAIT_S, Shell

from warpline.cli import main
from warpline.derived.time_parts import TimePart
from warpline.live.measure import GpuActivity, Rank, RankSteps, RankTime, StepNumbers
from warpline.live.screen import screen, text
from warpline.live.terminal import drawn
from warpline.live.watch import Second, StepTimes, Times, Update

FOR_EVER = ("repeat", 100_000_000, "k1x20,k2,u20000")
S = 10**9


def update(**more: object) -> Update:
    rank = Rank(4711, "python3", 0, 0, "H100")
    parts = {TimePart.GEMM: 5 * S, TimePart.HOST_SYNC: 2 * S, TimePart.LAUNCH_BOUND: 3 * S}
    known = {
        "name": "s1",
        "now_ns": 75 * S,
        "second": Second(72 * S, 73 * S, True, (GpuActivity(0, "H100", S // 4, 1234),)),
        "times": Times(60 * S, 70 * S, True, (RankTime(rank, parts),)),
        "steps": StepTimes(60 * S, 70 * S, True, (RankSteps(rank, StepNumbers(40, 2, 3, 10 * S)),)),
    }
    return Update(**{**known, **more})  # type: ignore[arg-type]


def test_the_numbers_of_an_update_are_on_the_screen() -> None:
    lines = text(screen(update(), 10)).splitlines()
    assert lines[0] == "s1: recording for 75.0 s"
    cells = dict(zip(screen(update(), 10).header, screen(update(), 10).rows[0], strict=True))
    assert cells == {
        "GPU": "0",
        "name": "H100",
        "rank": "0",
        "pid": "4711",
        "process": "python3",
        "busy": "25.0%",
        "busy 10 s": "50.0%",
        "ops/s": "1,234",
        "steps/s": "4",
        "step": "2 ns",
        "last step": "3 ns",
        "idle 10 s": "launch-bound 30.0%, host-sync 20.0%",
    }
    assert lines[-1] == "busy: 1 s until 2.00 s ago; idle causes: 10.0 s until 5.00 s ago"


def test_what_is_not_settled_is_marked() -> None:
    second = Second(72 * S, 73 * S, False, (GpuActivity(0, "H100", S // 4, 1),))
    shown = screen(update(second=second, times=Times(60 * S, 70 * S, False, ())), 10)
    assert "~25.0%" in shown.rows[0]
    assert "(not all known yet)" in shown.foot
    assert "(the newest gaps may change)" in shown.foot


def test_a_gpu_at_rest_and_a_process_without_one_have_rows() -> None:
    second = Second(0, S, True, (GpuActivity(3, None, 0, 0),))
    alone = RankSteps(Rank(7, None, None, None, None), StepNumbers(1, None, 5, 5))
    shown = screen(Update("x", S, second=second, steps=StepTimes(0, S, True, (alone,))), 10)
    assert [row[0] for row in shown.rows] == ["3", "-"]
    assert shown.rows[0][4] == "0.0%"


def test_without_anything_it_says_so() -> None:
    second, times = Second(0, S, True, ()), Times(0, S, True, ())
    shown = screen(Update("x", 2 * S, second=second, times=times), 10)
    assert text(shown).splitlines()[1:] == ["no GPU work and no steps in 1.00 s until 1.00 s ago"]


def test_the_end_of_a_recording_leaves_its_last_numbers() -> None:
    shown = screen(update(is_recording=False), 10)
    assert shown.title == "s1: recording has ended; this is its last screen"
    assert len(shown.rows) == 1


def test_a_small_terminal_shows_what_fits() -> None:
    gpus = tuple(GpuActivity(number, "H100 \x1b[2J", 0, 0) for number in range(20))
    shown = screen(Update("x", S, second=Second(0, S, True, gpus)), 10)
    text = drawn(shown, 40, 10).replace("\x1b[K", "")
    rows = text.removeprefix("\x1b[H").removesuffix("\x1b[J").split("\r\n")
    plain = [
        row.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for row in rows
    ]
    assert len(plain) == 9
    assert max(map(len, plain)) == 40
    assert plain[-2] == "and 16 more (--format json has all)"
    assert "\x1b" not in "".join(plain)  # what a program chose is no command to the terminal


def test_causes_are_shown_on_a_terminal_of_80_columns() -> None:
    gpu = GpuActivity(0, "NVIDIA H100 80GB HBM3", S // 4, 1234)
    shown = screen(update(second=Second(72 * S, 73 * S, True, (gpu,))), 10)
    wide, narrow = drawn(shown, 160, 24), drawn(shown, 80, 24)
    for each in ("launch-bound 30.0%, host-sync 20.0%", "50.0%", "2 ns"):
        assert each in wide
        assert each in narrow
    assert "last step" in wide
    assert "last step" not in narrow


def on_terminal(shell: Shell, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``warpline top`` on a terminal of its own, without a size; return both ends' owner."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "warpline", "top", *words]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**shell.environment, "TERM": "xterm-256color"},
        cwd=shell.folder,
        start_new_session=True,
    )
    os.close(theirs)
    shell.started.append(process)
    return process, ours


def read_until(handle: int, wanted: bytes) -> bytes:
    read, end = b"", time.monotonic() + WAIT_S
    while wanted not in read:
        assert time.monotonic() < end, read
        try:
            read += os.read(handle, 1 << 16)
        except OSError:  # closed
            break
    return read


def test_keys_and_the_end_on_a_terminal(shell: Shell) -> None:
    program = shell.start("profile", "-t", "cuda", "-o", "run", "--", *shell.program(*FOR_EVER))
    shell.wait_for_kernels("run")
    process, handle = on_terminal(shell, "run")
    before = termios.tcgetattr(handle)
    read_until(handle, b"launch-bound")
    os.write(handle, b"q")
    assert b"\x1b[?1049l" in read_until(handle, b"\x1b[?1049l")  # the other screen is left
    assert process.wait(WAIT_S) == 0
    assert termios.tcgetattr(handle) == before
    ended, other = on_terminal(shell, "run")
    read_until(other, b"launch-bound")
    program.send_signal(signal.SIGINT)
    assert b"recording has ended" in read_until(other, b"ended; this is its last screen\r\n")
    assert ended.wait(WAIT_S) == 0
    for each in (handle, other):
        os.close(each)
    program.wait(WAIT_S)
    gone = shell.do("top", "run")
    assert gone.returncode == 2
    assert gone.stderr.startswith("error: no recording in progress is named run\nhint: ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "no recording is in progress here"),
        (("s1",), 2, "no recording in progress is named s1"),
        (("--session", "s1", "s2"), 2, "the session is named twice"),
        (("--window", "0"), 2, "option --window: expected 1 to 60 seconds, not '0'"),
        (("PID",), 1, "process PID is not being recorded"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(
    words: tuple[str, ...],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    own = str(os.getpid())  # of this worker
    assert main(["top", *(word.replace("PID", own) for word in words)]) == status
    told = capsys.readouterr()
    assert told.err.splitlines()[0] == f"error: {message.replace('PID', own)}"
    assert told.out == ""
