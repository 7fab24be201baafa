"""The recording that the GPU's part of a profile comes from: one for each cycle of its schedule."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

from warpline import api
from warpline.capture.in_process.profile import Profile
from warpline.capture.in_process.run import one_line
from warpline.capture.in_process.warning import warn
from warpline.capture.session.names import ENDING, has_number, with_ending
from warpline.errors import WarplineError
from warpline.torch.gpu_events import Window
from warpline.trace.trace import Trace


class _Recorded(Profile):
    _NAME = "warpline.torch.profile"
    _EMPTY = ""  # a program without GPU work has tables of operators


class GpuRecording:
    """A recording of this process while a cycle warms up and is active.

    Args:
        path: Output file; None: a temporary file, until this object is no longer used.
        traces_cuda: Whether CUDA is recorded.
        overwrite: Overwrite an existing recording.
    """

    def __init__(self, path: str | None, *, traces_cuda: bool, overwrite: bool) -> None:
        pattern = path
        if path is None:
            folder = tempfile.mkdtemp(prefix="warpline-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            pattern = str(Path(folder.replace("%", "%%"), "cycle"))
        apis = ["cuda"] * traces_cuda + ["nvtx"] * (path is not None)
        self._profile = _Recorded(pattern, trace=apis, overwrite=overwrite)
        self._traces_cuda = traces_cuda
        self._is_running = False
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._pauses: list[list[int]] = []
        self._trace: Trace | None = None

    @property
    def path(self) -> Path | None:
        """Path of the recording; None in a program that is recorded as a whole."""
        return self._profile.path

    def start(self) -> None:
        """Start recording; warm-up steps follow."""
        self._profile.start()
        self._is_running = True

    def begin(self) -> None:
        """Note that the active steps begin."""
        self._start_ns = time.time_ns()

    def pause(self) -> None:
        """Leave out what follows."""
        if not self._pauses or len(self._pauses[-1]) > 1:
            self._pauses.append([time.time_ns()])

    def resume(self) -> None:
        """Do not leave out what follows."""
        if self._pauses and len(self._pauses[-1]) == 1:
            self._pauses[-1].append(time.time_ns())

    def stop(self) -> None:
        """Stop recording and write the recording, if it is running. A failure is a warning."""
        if not self._is_running:
            return
        self._is_running = False
        self.resume()
        self._end_ns = time.time_ns()
        try:
            self._profile.stop()
        except WarplineError as error:  # operators are known all the same
            warn(f"nothing of the GPU was recorded: {one_line(error)}")

    @property
    def window(self) -> Window:
        """The active steps."""
        start = self._start_ns or 0
        pauses = tuple((since, until) for since, until in self._pauses)
        return Window(start, self._end_ns or start, pauses)

    @property
    def has_trace(self) -> bool:
        """Whether there is a recording that can be opened."""
        return bool(self._profile.finished)

    @property
    def trace(self) -> Trace:
        """The active steps of the recording; CaptureError before `stop`."""
        if self._trace is None:
            whole = self._profile.trace
            zero, window = whole.meta.origin_utc_ns or 0, self.window
            self._trace = whole.window(window.start_ns - zero, window.end_ns - zero)
        return self._trace

    def keep(self, pytorch_trace: Path) -> None:
        """Write the recording again: its active steps, with PyTorch's operators.

        Args:
            pytorch_trace: The same steps in Kineto's layout.

        Raises:
            WarplineError: They cannot be joined or written; the recording stays as it is.
        """
        if self.path is None or not self.has_trace:
            return
        joined = api.merge(self.trace, pytorch_trace)
        api.export(joined, self.path, overwrite=True)
        self._trace = None  # of the file that was replaced


def path_of_cycle(path: str | os.PathLike[str] | None, cycle: int) -> str | None:
    """Return the name of a cycle's recording: ``run.warpline``, ``run-2.warpline`` and so on.

    Args:
        path: The name of the first one; with %n, free numbers are found.
        cycle: Number of the cycle, from 1.
    """
    if path is None:
        return None
    name = os.fspath(path)
    if cycle == 1 or has_number(name):
        return name
    return f"{with_ending(name).removesuffix(ENDING)}-{cycle}"
