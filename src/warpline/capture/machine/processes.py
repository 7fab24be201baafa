"""Descendant processes, read from /proc. A process that cannot be read counts as absent."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 50
_LOOKS = 3  # at an environment that is empty
_EXIT_CODE = 49  # of the fields of stat that follow the name
_ELF = b"\x7fELF"
_PT_INTERP = (3).to_bytes(4, "little")
_ELF64 = 2
_HEADER64 = struct.Struct("<16sHHIQQQIHHH")  # up to e_phnum


def descendants(root: int, without: Container[int] = ()) -> list[int]:
    """Return the descendants of a process, parents before their children.

    Args:
        root: The process.
        without: Processes that are left out with their own descendants.
    """
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = [pid for pid in _children(waiting.pop()) if pid not in without]
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return list(_children(pid))


def is_alive(pid: int) -> bool:
    """Return whether a process is running; zombies are not."""
    try:
        state = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in {b"Z", b"X"}


def status_of_zombie(pid: int) -> int | None:
    """Return the wait status of a zombie; None if the process is not one."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[_EXIT_CODE]) if fields[0] in {b"Z", b"X"} else None
    except (OSError, IndexError, ValueError):
        return None


def name_of(pid: int) -> str:
    """Return the name of a process as ``ps`` shows it; empty if it has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
    return ""


def executable_of(pid: int) -> str:
    """Return the executable of a process; empty if unknown."""
    with contextlib.suppress(OSError):
        return str((_PROC / str(pid) / "exe").readlink())
    return ""


def command_of(pid: int) -> tuple[str, ...]:
    """Return the command line of a process; empty if it may not be read."""
    with contextlib.suppress(OSError):
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        return tuple(os.fsdecode(word) for word in words if word)
    return ()


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it may not be read."""
    pairs = (os.fsdecode(pair).partition("=") for pair in (_environment(pid) or b"").split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def variable_of(pid: int, name: str) -> str | None:
    """Return a variable from the initial environment of a process.

    Empty if the variable is not set; None if unknown, such as after the process has ended.
    """
    blob = _environment(pid)
    if blob is None or not executable_of(pid):  # if it has ended, the content may be incomplete
        return None
    prefix = f"{name}=".encode()
    return next(
        (
            pair[len(prefix) :].decode("utf-8", "surrogateescape")
            for pair in blob.split(b"\0")
            if pair.startswith(prefix)
        ),
        "",
    )


def _environment(pid: int) -> bytes | None:
    """Return the initial environment of a process; None if unknown.

    While a program is being started in a process, its environment is empty, as is its command line,
    which is there a moment earlier.
    """
    folder = _PROC / str(pid)
    try:
        for _ in range(_LOOKS):
            blob = (folder / "environ").read_bytes()
            if blob:
                return blob
            if not (folder / "cmdline").read_bytes():
                return None
    except OSError:
        return None
    return b""


def send(root: int, number: int) -> int:
    """Send a signal to all descendants of a process and return how many received it.

    SIGKILL is repeated until none is left, as they may be starting others.
    """
    reached: set[int] = set()
    for _ in range(_ROUNDS):
        alive = [pid for pid in descendants(root) if is_alive(pid)]
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
                reached.add(pid)
        if number != signal.SIGKILL or not alive:
            break
        time.sleep(0.002)
    return len(reached)


def cannot_be_recorded(executable: str) -> str | None:
    """Return why the agent cannot be loaded into a program, or None if no reason is known."""
    try:
        with Path(executable).open("rb") as file:
            head = file.read(_HEADER64.size)
            if not head.startswith(_ELF):
                return None  # a script: its interpreter is the process
            if head[4] != _ELF64:
                return "is a 32-bit program"
            fields = _HEADER64.unpack(head)
            machine, offset, size, count = fields[2], fields[5], fields[9], fields[10]
            if machine != _own_machine():
                return "is built for another CPU architecture"
            file.seek(offset)
            headers = file.read(size * count)
    except (OSError, struct.error):
        return None
    kinds = (headers[at : at + 4] for at in range(0, len(headers), size or 1))
    if any(kind == _PT_INTERP for kind in kinds):
        return None
    return "is statically linked, so the agent cannot be loaded"


@cache
def _own_machine() -> int:
    with Path("/proc/self/exe").open("rb") as file:
        return int(_HEADER64.unpack(file.read(_HEADER64.size))[2])


def _children(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process."""
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError, ValueError):
                yield from map(int, (thread / "children").read_bytes().split())
