"""The processes that are attached to: the agent in each, or none of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from warpline.capture.attaching.injecting import Attacher, Injected
from warpline.capture.attaching.refusals import process_obstacle
from warpline.capture.machine.agent import agent_library
from warpline.errors import CaptureError

_FUNCTION = "wl_agent_stand"
_BUSY = "it records itself, or is recorded already"


class Group:
    """The processes that are attached to.

    Args:
        attacher: The native library; None if they are only observed from outside.
        pids: The processes.

    Attributes:
        able: Those in which nothing is known to stand in the way.
        injected: How the agent came into each of them.
        refused: Why others are left out.

    Raises:
        CaptureError: None of them can be attached to.
    """

    def __init__(self, attacher: Attacher | None, pids: Sequence[int]) -> None:
        self._attacher = attacher
        self.refused: dict[int, CaptureError] = {}
        self.injected: dict[int, Injected] = {}
        for pid in pids:
            found = process_obstacle(pid) if attacher is None else attacher.obstacle(pid)
            if found is not None:
                text = f"cannot attach to process {pid}: {found.cause}"
                self.refused[pid] = CaptureError(text, hint=found.cure)
        self.able = [pid for pid in pids if pid not in self.refused]
        if not self.able:
            raise self.refused[pids[0]]

    @property
    def recorded(self) -> list[int]:
        """The processes that are recorded."""
        return self.able if self._attacher is None else list(self.injected)

    def inject(self, stand: Path) -> None:
        """Have the processes stand by, one at a time; those that cannot are left out.

        Args:
            stand: The directory with the page that they stand by for.

        Raises:
            CaptureError: None of them can.
        """
        if self._attacher is None:
            return
        agent = agent_library()
        for pid in self.able:
            try:
                self.injected[pid] = _stand_by(self._attacher, pid, agent, stand)
            except CaptureError as error:
                self.refused[pid] = error
        if not self.injected:
            raise self.refused[self.able[0]]


def _stand_by(attacher: Attacher, pid: int, agent: Path, stand: Path) -> Injected:
    injected = attacher.inject(pid, agent, _FUNCTION, str(stand))
    if injected.result:
        why = _BUSY if injected.result == errno.EBUSY else os.strerror(injected.result)
        raise CaptureError(f"the agent cannot record process {pid}: {why}")
    return injected
