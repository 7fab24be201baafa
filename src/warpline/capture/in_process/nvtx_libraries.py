"""Libraries of this process that call NVTX, and whether their calls reach the agent.

A library that called NVTX before the agent was loaded found no profiler then, and does not look
again.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

_REACHING: set[str] = set()  # libraries whose NVTX reaches the agent
_SILENT: set[str] = set()  # libraries whose NVTX never reaches it


def find_silent(bound: Callable[[], int], *, had_agent: bool) -> list[str]:
    """Return the loaded libraries whose NVTX calls do not reach the agent.

    Args:
        bound: Returns the number of libraries whose calls reach the agent.
        had_agent: Whether the agent was there for NVTX before now, for an earlier session.
    """
    found = []
    for name, touch in _nvtx_users():
        if had_agent:
            _REACHING.add(name)
        if name not in _REACHING | _SILENT:
            before = bound()
            touch()
            (_REACHING if bound() > before else _SILENT).add(name)
        if name in _SILENT:
            found.append(name)
    return found


def introduce_others() -> None:
    """Let the libraries that were loaded since, or never called NVTX, find the agent."""
    for name, touch in _nvtx_users():
        if name not in _SILENT:
            touch()
            _REACHING.add(name)


def _nvtx_users() -> list[tuple[str, Callable[[], Any]]]:
    """Return the loaded libraries with a copy of NVTX.

    Each comes with a call that makes its NVTX look for a profiler, if it has not yet, and that
    records nothing.
    """
    users: list[tuple[str, Callable[[], Any]]] = []
    if "nvtx" in sys.modules:
        with contextlib.suppress(ImportError):  # waits for a concurrent import
            users.append(("nvtx", importlib.import_module("nvtx._lib.lib").initialize))
    torch = getattr(getattr(sys.modules.get("torch"), "_C", None), "_nvtx", None)
    pop = getattr(torch, "rangePop", None)
    if pop is not None:  # no push was recorded yet, so this closes no range
        users.append(("torch.cuda.nvtx", pop))
    return users
