"""The agent's overhead on this machine, measured while the recording is written.

After the program has ended, the agent runs each kind of record in a loop, in a temporary session
next to the logs. This adds no overhead to the program. The loop keeps the agent's code in the
cache, so these times are lower bounds; the overhead in a real program may be higher.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warpline.capture.machine.agent import agent_library
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import State
from warpline.capture.session.session import create_session
from warpline.errors import WarplineError

# Tables of the measured records, in the order of WL_COST_... in
# native/agent/include/warpline_agent.h.
MEASURED = ("range", "mark", "api_call", "call_frame")
_LEAST_EVENTS = 75_000  # events that the agent writes if none is dropped


def measure(folder: Path) -> dict[str, float]:
    """Return the overhead in ns per row of each table, by table.

    For `call_frame` it is the time per frame of a call: equal backtraces are stored once, but each
    is walked.

    The result is empty if it cannot be measured, without an agent or disk space. Call it only in a
    process that loads the agent for nothing else.

    Args:
        folder: The directory of the logs, for temporary files.
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
