"""Programs that record more than fits on the disk; the first argument selects one."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import nvtx
from processes.programs.ledger import tell, wait_for, work


def many(count: str) -> None:
    """Run ranges with an inner one each; say so when all has gone well."""
    for number in range(int(count)):
        nvtx.push_range(f"outer {number}")
        nvtx.push_range("inner")
        nvtx.pop_range()
        nvtx.pop_range()
    os.write(1, b"all is well\n")


def room_again(count: str, filler: str) -> None:
    """Record until it is full; then there is room again."""
    many(count)
    Path(filler).unlink()
    signal.sigtimedwait([], 0.3)
    work("after", 10)


def no_session() -> None:
    """Go on when the session's folder is deleted."""
    work("before", 2)
    tell("ready")
    wait_for("deleted")
    many("60000")
    if os.fork() == 0:
        many("10")
        os._exit(0)
    os.wait()


def other_user() -> None:
    """Give up the rights that the launcher gave, as servers do."""
    many("10")
    os.setgid(65534)
    os.setuid(65534)
    many("60000")


def no_more_files() -> None:
    """Run out of file descriptors."""
    many("10")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    many("60000")


def fill(filler: str) -> None:
    """Record, then leave no room for a recording."""
    many("20000")
    with Path(filler).open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
            file.flush()


def masked(mask: str) -> None:
    """Record with a file mode mask."""
    os.umask(int(mask, 8))
    many("1")


def delete_session() -> None:
    """Delete the session's folder, then go on."""
    work("before", 2)
    shutil.rmtree(os.environ["WARPLINE_SESSION"])
    many("60000")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
