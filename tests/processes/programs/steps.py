"""Programs that run for a while, for recordings of a part of them."""

from __future__ import annotations

import os
import signal
import sys
import time

import nvtx
from processes.programs.ledger import note, tell, wait_for, work


def minutes() -> None:
    """Ranges for ever, two of them open all the time."""
    nvtx.push_range("whole run")
    nvtx.start_range("started")
    tell("ready")
    while True:
        work("step")
        time.sleep(0.002)


def deaf() -> None:
    """The same, without an ear for SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    minutes()


def saving() -> None:
    """The same, with something to do at the end."""

    def end(*_: object) -> None:
        tell("saved")
        sys.exit(9)

    signal.signal(signal.SIGTERM, end)
    minutes()


def until(seconds: str) -> None:
    """Ranges for some time, then an end in order."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        work("step")
        time.sleep(0.02)
    tell("done")


def windows(count: str, form: str = "push", domain: str = "") -> None:
    """Steps, some of them within capture ranges; what is in them is noted as such."""
    for number in range(int(count)):
        with nvtx.annotate("outside"):
            pass
        if form == "push":
            with nvtx.annotate("window", domain=domain or None):
                inside(number)
        elif form == "start":
            opened = nvtx.start_range("window", domain=domain or None)
            inside(number)
            nvtx.end_range(opened)
    with nvtx.annotate("outside"):
        pass
    tell("done")
    time.sleep(float(os.environ.get("LINGER", "0")))
    tell("lingered")


def inside(number: int) -> None:
    """What is to be recorded."""
    with nvtx.annotate("outer"):
        work(f"inside {number}", 3)
    note("outer")


def windows_of_two() -> None:
    """Two processes; each opens a window while the other's is open, one dies in its own."""
    child = os.fork()
    if child == 0:
        nvtx.push_range("window")
        work("child's", 3)
        tell("child in window")
        wait_for("parent in window")
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for("child in window")
    work("parent's, in the child's window", 2)
    nvtx.push_range("window")
    work("parent's", 4)
    tell("parent in window")
    os.waitpid(child, 0)
    work("parent's, after the child's death", 5)
    nvtx.pop_range()
    with nvtx.annotate("outside"):
        pass
    time.sleep(1.5)  # the launcher looks after the dead now and then
    with nvtx.annotate("outside"):
        pass
    nvtx.push_range("window")
    work("parent's second", 6)
    nvtx.pop_range()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
