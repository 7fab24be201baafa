"""Which processes of a program are attached to: those in which there is something to record."""

from __future__ import annotations

import os
from pathlib import Path

from warpline.capture.machine import processes
from warpline.capture.machine.agent import AGENT_NAME, INJECTION_VARIABLE

_DRIVER = b"/libcuda.so"


def targets(pid: int) -> list[int]:
    """Return the processes of a program to attach to: itself, and those that it has started.

    Others than these are not touched: processes without CUDA, such as a shell or the parent of
    ranks. Without any, it is the program itself.
    """
    tree = [pid, *processes.descendants(pid, without={os.getpid()})]
    return [each for each in tree if has_something(each)] or [pid]


def has_something(pid: int) -> bool:
    """Return whether a process has CUDA, or its NVTX looks for the agent; not if it is unknown."""
    try:
        if _DRIVER in Path(f"/proc/{pid}/maps").read_bytes():
            return True
    except OSError:
        return False
    injected = processes.variable_of(pid, INJECTION_VARIABLE)
    return injected is not None and Path(injected).name == AGENT_NAME
