"""Processes of Warpline's own beside the launcher, which are not its children."""

from __future__ import annotations

import os
from collections.abc import Callable


def start_orphan(run: Callable[[], object]) -> int:
    """Fork a process whose parent ends at once, and return its pid.

    Init adopts it, so this process does not wait for it, unless this process is init or a
    subreaper: as the first process of a container, it gets the orphan as a child.

    Args:
        run: What the process does; it ends afterwards, without exit handlers.

    Raises:
        OSError: The process could not be started.
    """
    told, telling = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _leave(run, telling)
    except OSError:
        os.close(told)
        raise
    finally:
        os.close(telling)
    os.waitpid(child, 0)
    with os.fdopen(told, "rb") as answer:
        pid = answer.read()
    if not pid:
        raise OSError("the process could not be started")
    return int(pid)


def _leave(run: Callable[[], object], telling: int) -> None:
    """Fork the process, say its pid, and exit. Runs in a child."""
    try:
        pid = os.fork()
        if pid == 0:
            os.close(telling)
            run()
        else:
            os.write(telling, str(pid).encode())
    finally:
        os._exit(0)  # also the process itself
