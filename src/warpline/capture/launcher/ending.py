"""How a watched program ended."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from warpline.capture.session.facts import StoppedBy


@dataclass
class Ending:
    """How a watched program ended.

    Attributes:
        status: The wait status from waitpid.
        interrupted: Whether Ctrl-C was pressed.
        asked: The first signal to end that the launcher got, as from Ctrl-C or kill; or None.
        killed: Whether all processes were killed, after a second signal.
        ended_by: The signal that the launcher sent to stop the program, per its settings; or None.
        stopped_ns: When recording stopped, in monotonic ns, if the program was still running.
        stopped_by: The reason.
        left: Processes that were not waited for.
        seen: The maximum number of concurrent processes.
        unrecorded: Processes without the session in their environment: pid -> name.
        unloadable: Programs that the agent cannot be loaded into: file -> reason.
        sampled: Facts about time windows for session.json.
    """

    status: int = 0
    interrupted: bool = False
    asked: int | None = None
    killed: bool = False
    ended_by: int | None = None
    stopped_ns: int | None = None
    stopped_by: StoppedBy | None = None
    left: list[int] = field(default_factory=list)
    seen: int = 0
    unrecorded: dict[int, str] = field(default_factory=dict)
    unloadable: dict[str, str] = field(default_factory=dict)
    sampled: dict[str, Any] = field(default_factory=dict)

    @property
    def signal(self) -> int | None:
        """The signal that killed the program, or None."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    def stop_facts(self) -> dict[str, Any]:
        """Return the facts about the stop of recording for session.json."""
        if self.stopped_ns is None:
            return {}
        return {"stopped_monotonic_ns": self.stopped_ns, "stopped_by": self.stopped_by}
