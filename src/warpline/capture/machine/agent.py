"""The agent, the library that records from within a program: its path, and what loads it."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from warpline.errors import AgentMissingError

AGENT_NAME = "libwarpline_agent.so"
AGENT_VARIABLE = "WARPLINE_AGENT"

# They name libraries for NVTX and the CUDA driver to load.
INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"
CUDA_INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"


def agent_library() -> Path:
    """Return the absolute path of the agent.

    The environment variable WARPLINE_AGENT overrides it.

    Raises:
        AgentMissingError: The library does not exist.
    """
    chosen = os.environ.get(AGENT_VARIABLE)
    if chosen:
        path = Path(chosen).absolute()
        if not path.is_file():
            raise AgentMissingError(
                f"{AGENT_VARIABLE}={chosen}: no such file", hint=f"unset {AGENT_VARIABLE}"
            )
        return path
    # An editable installation has two roots: the sources and the build output.
    for root in sys.modules["warpline"].__path__:
        path = Path(root).absolute() / "_native" / AGENT_NAME
        if path.is_file():
            return path
    raise AgentMissingError(
        f"{AGENT_NAME} is not installed, so programs cannot be recorded",
        hint="run warpline doctor: it says what to install",
    )


def agent_abi_version(path: Path) -> int:
    """Return the ABI version of the agent at `path`.

    Raises:
        AgentMissingError: It cannot be loaded.
    """
    try:
        return int(ctypes.CDLL(str(path)).wl_agent_abi_version())
    except (OSError, AttributeError) as error:
        raise AgentMissingError(f"cannot load {path}: {error}") from error
