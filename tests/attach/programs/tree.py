"""A program that starts others, which make NVTX ranges once they are told to.

Its words are a folder and a static program. What it does is known by files in the folder:
`NAME.ready`, `NAME.done`; it goes on when `go` is there, and ends when `end` is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import nvtx

RANGES = 20
folder = Path(sys.argv[2])


def wait_for(name: str) -> None:
    """Wait for a file."""
    while not (folder / name).exists():
        time.sleep(0.005)


def worker(name: str) -> None:
    """Make ranges; the first worker also in a fork, and in a program that it starts."""
    (folder / f"{name}.ready").touch()
    wait_for("go")
    for number in range(RANGES):
        with nvtx.annotate(f"{name} {number}"):
            pass
    if name == "worker0":
        others(name)
    (folder / f"{name}.done").touch()
    if name != "brief":
        wait_for("end")


def others(name: str) -> None:
    """Make a range in a fork, and one in another program."""
    if os.fork() == 0:
        with nvtx.annotate(f"{name} fork"):
            pass
        os._exit(0)
    os.wait()
    code = "import nvtx\nwith nvtx.annotate('later'): pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def stepper(name: str) -> None:
    """Make steps without end."""
    (folder / f"{name}.ready").touch()
    wait_for("go")
    number = 0
    while not (folder / "end").exists():
        with nvtx.annotate(f"step {number}"):
            time.sleep(0.002)
        number += 1


def parent(kind: str, static: str) -> None:
    """Start four workers, one that ends early, and a program that cannot be attached to."""
    names = [f"worker{number}" for number in range(4)] + ["brief"][: kind == "worker"]
    words = [[sys.executable, __file__, kind, str(folder), name] for name in names]
    started = [subprocess.Popen(each) for each in words]
    alien = subprocess.Popen([static])
    with nvtx.annotate("parent, before"):  # it finds no profiler, and does not look again
        pass
    (folder / "static").write_text(str(alien.pid))
    for each in started:
        each.wait()
    alien.kill()
    alien.wait()
    sys.exit(max(each.returncode for each in started))


if __name__ == "__main__":
    if sys.argv[1] == "parent":
        parent(sys.argv[3], sys.argv[4])
    else:
        {"worker": worker, "stepper": stepper}[sys.argv[1]](sys.argv[3])
