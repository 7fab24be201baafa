"""The kernels of a function and of the CUDA graph captured from it, recorded in this process."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from warpline.capture.in_process.profile import Profile
from warpline.capture.in_process.run import is_recorded, one_line
from warpline.derived.graph_safety.nodes import GraphNodes, graph_nodes
from warpline.errors import WarplineError


class KernelRecording:
    """Records kernels in a ``with`` block, if nothing else records this process.

    The block must contain the capture of a graph and all its replays.

    Attributes:
        graphs: The graphs that were launched, compared with eager launches; empty until the end.
        why_not: Why nothing was recorded; empty if it was.
    """

    def __init__(self) -> None:
        self.graphs: tuple[GraphNodes, ...] = ()
        self.why_not = ""
        self._folder: str | None = None
        self._profile: Profile | None = None

    def __enter__(self) -> Self:
        if is_recorded():
            self.why_not = "this program is being recorded; use warpline graphcheck RECORDING"
            return self
        self._folder = tempfile.mkdtemp(prefix="warpline-")
        profile = Profile(str(Path(self._folder, "run")).replace("%", "%%"), trace="cuda")
        try:
            profile.start()
            self._profile = profile
        except WarplineError as error:
            self.why_not = one_line(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._profile is not None:
                self._profile.stop()
                self.graphs = graph_nodes(self._profile.trace)
        except WarplineError as failure:
            self.why_not = one_line(failure)
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
