"""What recording costs on this machine: the agent's part, measured when a session is finished.

The agent runs each kind of record in a loop, in a session made for it beside the logs, after the
program has ended: nothing is added to the program. A loop keeps the agent's code in the processor's
cache, so these are times at their best; a program with other things to do may pay more.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warpline.capture.control import State
from warpline.capture.libraries import agent_library
from warpline.capture.session import AgentConfig, create_session
from warpline.errors import WarplineError

# Kinds of records by table, in the order of WL_COST_... in native/agent/include/warpline_agent.h.
MEASURED = ("range", "mark", "api_call", "call_frame")
_LEAST_EVENTS = 75_000  # that the agent must have written if nothing was lost


def measure(folder: Path) -> dict[str, float]:
    """Return the time in ns that a row of each table took the program, by table.

    That of `call_frame` is for one frame of a call: calls share chains, but each is walked.

    It is empty where that cannot be measured: there is no agent, or no space. Only for a process
    that loads the agent for this alone.

    Args:
        folder: Where the logs are; what is written there meanwhile is deleted.
    """
    try:
        with _scratch(folder) as scratch:
            return _measure(scratch)
    except (WarplineError, OSError, AttributeError):
        return {}


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cost-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _measure(folder: Path) -> dict[str, float]:
    session = create_session(folder, AgentConfig(), {}, state=State.RECORDING)
    session.close()
    agent = ctypes.CDLL(str(agent_library()))
    agent.wl_agent_records.restype = ctypes.c_uint64
    if agent.wl_agent_attach(bytes(folder)) != 0:
        return {}
    times = (ctypes.c_double * len(MEASURED))()
    agent.wl_agent_measure(times)
    events = agent.wl_agent_records()
    agent.wl_agent_detach()
    is_sound = events >= _LEAST_EVENTS and all(math.isfinite(ns) and ns > 0 for ns in times)
    return dict(zip(MEASURED, (round(ns, 1) for ns in times), strict=True)) if is_sound else {}
