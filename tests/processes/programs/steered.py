"""Programs under ``warpline launch``: they go on as the test's files say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import nvtx
from processes.programs.ledger import tell, wait_for

import warpline


def text_of(path: Path) -> str | None:
    """Return what is in a file, None if it is gone."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def numbered(folder: str) -> None:
    """Do as many numbered ranges as the file `wanted` says, and say so; its absence is the end."""
    wanted, done = Path(folder) / "wanted", Path(folder) / "done"
    number = 0
    done.write_text("0")  # before anybody looks
    tell("ready")
    while (text := text_of(wanted)) is not None:
        while text and number < int(text):
            with nvtx.annotate(f"range {number}"):
                pass
            number += 1
        done.write_text(str(number))
        time.sleep(0.005)
    sys.stdout.write(f"did {number}\n")
    sys.exit(7)


def parent(folder: str) -> None:
    """Ranges in a fork and in a program of its own, each once they are wanted."""
    pid = os.fork()
    if pid == 0:
        wait_and_range(folder, "fork")
        os._exit(0)
    command = [sys.executable, __file__, "wait_and_range", folder, "program"]
    with subprocess.Popen(command) as child:
        tell("ready")
        os.waitpid(pid, 0)
    sys.exit(child.returncode)


def wait_and_range(folder: str, name: str) -> None:
    """Make a range once the file `go` is there, and end once `wanted` is not."""
    with nvtx.annotate(f"{name} before"):
        pass
    (Path(folder) / f"{name}.ready").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.005)
    with nvtx.annotate(f"{name} recorded"):
        pass
    (Path(folder) / f"{name}.done").touch()
    while (Path(folder) / "wanted").exists():
        time.sleep(0.005)


def itself(folder: str) -> None:
    """Record itself: while nobody else does, while others do, and before others begin to."""
    tell("ready")
    for number in range(3):
        wait_for(f"go {number}")
        with warpline.profile(f"{folder}/own{number}"):
            with nvtx.annotate(f"inside {number}"):
                pass
            tell(f"inside {number}")
            wait_for(f"leave {number}")
            with nvtx.annotate(f"still inside {number}"):
                pass
        with nvtx.annotate(f"after {number}"):
            pass
        tell(f"done {number}")
    wait_for("end")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
