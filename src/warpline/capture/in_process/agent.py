"""The agent, loaded into the process that records itself."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from warpline.capture.machine.agent import agent_library
from warpline.errors import AgentMissingError, CaptureError

ABI_VERSION = 1


def is_attached_to() -> bool:
    """Return whether the agent in this process records it, or is about to, as others asked for."""
    try:
        library = ctypes.CDLL(str(agent_library()), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        return bool(library.wl_agent_is_recorded())
    except (OSError, AttributeError, AgentMissingError):  # it is not loaded
        return False


class Agent:
    """The agent, loaded into this process; it is never unloaded.

    Args:
        path: The library.

    Raises:
        AgentMissingError: It cannot be loaded, or its version does not match.
    """

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
            version = library.wl_agent_abi_version()
            self._attach = library.wl_agent_attach
            self._detach = library.wl_agent_detach
            self._attach_nvtx = library.wl_agent_nvtx_attach
            self._attach_cuda = library.wl_agent_cuda_attach
            self._detach_cuda = library.wl_agent_cuda_detach
        except (OSError, AttributeError) as error:
            raise AgentMissingError(f"cannot load {path}: {error}") from error
        if version != ABI_VERSION:
            raise AgentMissingError(
                f"{path} has ABI version {version}, expected {ABI_VERSION}",
                hint="reinstall warpline",
            )
        self._attach.argtypes = (ctypes.c_char_p,)
        self.path = path

    def attach(self, folder: Path) -> None:
        """Join a session, with all NVTX of this process; CaptureError if that fails."""
        number = self._attach(os.fsencode(folder))
        if number:
            raise CaptureError(f"the agent cannot record to {folder}: {os.strerror(number)}")
        self._attach_nvtx()

    def attach_cuda(self) -> None:
        """Start CUDA tracing if the session requests it; on failure, a diagnostic has the reason.

        Call it while the session records: CUDA tracing follows later changes only after
        milliseconds.
        """
        self._attach_cuda()

    def detach(self) -> None:
        """Leave the session, which completes its logs. Without a session, do nothing."""
        self._detach_cuda()
        self._detach()
