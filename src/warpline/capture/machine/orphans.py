"""Processes of Warpline's own beside the launcher, which are not its children."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

_MOST_HANDLE = 1 << 16


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


def keep_only(link: socket.socket) -> None:
    """Become a process that shares nothing with the launcher but a socket; call it in the orphan.

    Signals for the program's group do not reach it, and it has no other file of the launcher's.
    """
    os.setsid()
    gc.freeze()  # the launcher's objects stay shared pages
    handle = link.fileno()
    os.closerange(0, handle)  # open pipes would keep their readers waiting
    os.closerange(handle + 1, _MOST_HANDLE)
    for _ in range(3):  # libraries may print
        os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def end_after(link: socket.socket, rest_s: float) -> None:
    """End this process some time after the other end of a socket is closed, whatever it does then.

    Args:
        link: The socket.
        rest_s: The time. A driver may block for longer.
    """
    threading.Thread(target=_end_after, args=(link, rest_s), daemon=True).start()


def _end_after(link: socket.socket, rest_s: float) -> None:
    poll = select.poll()
    poll.register(link, select.POLLRDHUP)
    poll.poll()
    time.sleep(rest_s)
    os._exit(0)


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
