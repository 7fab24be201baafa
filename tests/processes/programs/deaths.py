"""Programs that end in every way, selected by the first argument. All run some ranges first."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import nvtx
from processes.programs.ledger import tell, wait_for, work


def exit_at_once() -> None:
    """No handler of any kind runs."""
    os._exit(3)


def abort() -> None:
    """SIGABRT from within."""
    os.abort()


def segfault() -> None:
    """A real one."""
    ctypes.string_at(0)


def bus_error() -> None:
    """SIGBUS of the program's own."""
    os.kill(os.getpid(), signal.SIGBUS)


def exception() -> None:
    """A traceback and status 1."""
    raise ValueError("the program's own error")


def killed() -> None:
    """SIGKILL in the midst of ranges, two of them open."""
    nvtx.push_range("open")
    nvtx.start_range("started")
    work("inner", 2)
    os.kill(os.getpid(), signal.SIGKILL)


def terminated() -> None:
    """SIGTERM from outside, nobody handles it."""
    tell("ready")
    time.sleep(30)


def terminated_in_order() -> None:
    """SIGTERM is a request to end."""

    def end(*_: object) -> None:
        work("saving", 2)
        sys.exit(7)

    signal.signal(signal.SIGTERM, end)
    tell("ready")
    time.sleep(30)


def interrupted() -> None:
    """Ctrl-C is KeyboardInterrupt; what comes after it is not recorded."""
    try:
        tell("ready")
        time.sleep(30)
    except KeyboardInterrupt:
        time.sleep(0.2)
        with nvtx.annotate("after"):
            pass
        sys.exit(5)


def interrupted_and_deaf() -> None:
    """Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell("ready")
    time.sleep(30)


def counting() -> None:
    """Ranges for ever, in several threads and a child."""
    if os.fork() == 0:
        tell(f"child {os.getpid()}")
    tell("ready")
    for _ in range(2):
        threading.Thread(target=count, daemon=True).start()
    count()


def count() -> None:
    """Ranges for ever."""
    while True:
        work("count")


def going_on() -> None:
    """Go on without the launcher, to an end in order."""
    tell("ready")
    wait_for("go on")
    work("later", 500)
    threading.Thread(target=work, args=("in a new thread", 3)).start()
    subprocess.run([sys.executable, __file__, "nothing"], check=True)
    tell("done")


def nothing() -> None:
    """End at once, in order."""


if __name__ == "__main__":
    work("early", 5)
    globals()[sys.argv[1]](*sys.argv[2:])
