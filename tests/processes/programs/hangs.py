"""Programs that hang in a range until they are killed, or die in it; the first argument says how.

Each notes on the monotonic clock when it opened `step_1`, in the ledger's folder.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import nvtx
from processes.programs.ledger import leave, tell, wait_for, work


def note_time(name: str) -> None:
    """Note when this place was reached."""
    leave(name, str(time.monotonic_ns()))


def hang() -> None:
    """Hang in a range until something ends the program."""
    step()
    time.sleep(60)


def step() -> None:
    """Open the range, with one in it that is closed."""
    work("step_0")
    note_time("opening")
    nvtx.push_range("step_1")
    work("forward")
    note_time("opened")
    tell("ready")


def abort() -> None:
    """SIGABRT from within."""
    step()
    note_time("died")
    os.abort()


def segfault() -> None:
    """A real one."""
    step()
    note_time("died")
    ctypes.string_at(0)


def exit_at_once() -> None:
    """No handler runs."""
    step()
    note_time("died")
    os._exit(3)


def forget() -> None:
    """End in order, and leave the range open."""
    step()


def with_threads() -> None:
    """Hang in the main thread and in another; a third has ended within a range."""

    def end_within() -> None:
        nvtx.push_range("left")

    def wait() -> None:
        nvtx.push_range("waiting")
        time.sleep(60)

    left = threading.Thread(target=end_within)
    left.start()
    left.join()
    while Path(f"/proc/self/task/{left.native_id}").exists():  # join returns a little before that
        time.sleep(0.001)
    threading.Thread(target=wait, daemon=True).start()
    nvtx.push_range("run")
    hang()


def with_child() -> None:
    """A child hangs and is killed; the program waits for it when it is told to, and goes on."""
    child = os.fork()
    if child == 0:
        hang()
    wait_for("ready", 30)
    leave("child", str(child))
    wait_for("reap", 30)
    os.waitpid(child, 0)
    work("after")


def become() -> None:
    """Become another program in the middle of a range."""
    step()
    note_time("died")
    os.execv(sys.executable, [sys.executable, __file__, "finish"])


def finish() -> None:
    """Make a range and end."""
    work("of the next program")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
