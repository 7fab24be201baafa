"""Where the agent is: the library that records from within a program."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from warpline.errors import AgentMissingError

AGENT_NAME = "libwarpline_agent.so"
AGENT_VARIABLE = "WARPLINE_AGENT"


def agent_library() -> Path:
    """Return the absolute path of the agent.

    The environment variable WARPLINE_AGENT names another build of it.

    Raises:
        AgentMissingError: There is none.
    """
    chosen = os.environ.get(AGENT_VARIABLE)
    if chosen:
        path = Path(chosen).absolute()
        if not path.is_file():
            raise AgentMissingError(f"{AGENT_VARIABLE}={chosen}: there is no such file")
        return path
    # An editable installation has two roots: the sources, and the folder with what was built.
    for root in sys.modules["warpline"].__path__:
        path = Path(root).absolute() / "_native" / AGENT_NAME
        if path.is_file():
            return path
    raise AgentMissingError(
        f"{AGENT_NAME} is not installed, so no program can be recorded",
        hint="it is built on Linux where a C++20 compiler is found: warpline doctor",
    )


def agent_abi_version(path: Path) -> int:
    """Return the version of the interface that the agent at `path` has.

    Raises:
        AgentMissingError: It cannot be loaded.
    """
    try:
        return int(ctypes.CDLL(str(path)).wl_agent_abi_version())
    except (OSError, AttributeError) as error:
        raise AgentMissingError(f"{path} cannot be loaded: {error}") from error
