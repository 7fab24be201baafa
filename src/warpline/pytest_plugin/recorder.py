"""The fixture ``warpline_profile``: records blocks and commands of a test."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from warpline import api
from warpline.capture.in_process.profile import profile
from warpline.capture.in_process.run import is_recorded
from warpline.comparison.bounds import IDLE, MEMORY, STEP, measure
from warpline.comparison.summary import Summary
from warpline.errors import CaptureError, UsageError, WarplineError
from warpline.lazy import lazy
from warpline.pytest_plugin.marker import Wanted, wanted

if TYPE_CHECKING:
    import shlex

    from warpline.pytest_plugin import verdict
    from warpline.result import Diagnosis
    from warpline.trace import Trace
else:
    shlex = lazy("shlex")
    verdict = lazy("warpline.pytest_plugin.verdict")

_ALREADY = (
    "this pytest run is itself recorded by warpline profile, which has the test as a range;"
    " run pytest without it"
)


class Recorded:
    """What one or several runs recorded.

    Attributes:
        paths: The recordings, one per run.
        steps: Name of the NVTX ranges that are steps; None detects steps.
    """

    def __init__(
        self, paths: Sequence[Path], steps: str | None = None, *, why_not: str = ""
    ) -> None:
        self.paths = tuple(paths)
        self.steps = steps
        self._why_not = why_not

    def __repr__(self) -> str:
        return f"<warpline recording {', '.join(map(str, self.paths)) or '(not ended)'}>"

    def __str__(self) -> str:
        return str(self.diagnosis)

    @property
    def path(self) -> Path:
        """The recording; of several runs, the first one."""
        __tracebackhide__ = True  # a failure is at the line of the test
        if not self.paths:
            why = self._why_not or "use it after the with block"
            raise CaptureError("the recording is not available", hint=why)
        return self.paths[0]

    @cached_property
    def trace(self) -> Trace:
        """The opened recording, for `warpline.stats` and queries; of several runs, the first."""
        return api.open(self.path)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What ``warpline analyze`` shows of `trace`: findings, breakdown, verdict."""
        return api.analyze(self.trace, steps=self.steps)

    @cached_property
    def summary(self) -> Summary:
        """What a baseline keeps of all runs.

        Raises:
            UsageError: There is no GPU work, and there are no steps on the CPU.
        """
        __tracebackhide__ = True
        _ = self.path
        return api.summarize([str(path) for path in self.paths], steps=self.steps)

    @property
    def step_ms(self) -> float:
        """Mean time of the analyzed steps in ms; UsageError without steps."""
        __tracebackhide__ = True
        return self._value(STEP) / 1e6

    @property
    def idle(self) -> float:
        """Share of the steps in which the GPU is idle; UsageError without GPU work."""
        __tracebackhide__ = True
        return self._value(IDLE)

    @property
    def memory_peak(self) -> float:
        """Peak GPU memory in bytes; UsageError if no allocations were recorded."""
        __tracebackhide__ = True
        return self._value(MEMORY)

    def _value(self, metric: str) -> float:
        __tracebackhide__ = True
        found = measure(self.summary, metric)
        if isinstance(found, str):
            raise UsageError(f"{metric} is unknown: {found}")
        return found.value

    def check(self, **limits: Any) -> None:
        """Fail the test if a limit does not hold: ``run.check(step_ms="<= 12")``.

        The keywords are those of the marker, without `steps` and `trace`.
        """
        __tracebackhide__ = True
        for name in {"steps", "trace"} & set(limits):
            raise UsageError(f"{name} is for recording", hint="pass it to the marker")
        found = verdict.of(self, wanted(limits), verdict.Folder(Path(".warpline-baselines")))
        if found.is_failure:
            pytest.fail(found.text, pytrace=False)


class Recorder:
    """Records what a test names; all its recordings are runs of one program.

    Args:
        wanted: What the test's marker asks for.
        folder: Makes the folder of its recordings when it is first needed.
        stem: Name of the recordings, without a number.
    """

    def __init__(self, wanted: Wanted, folder: Callable[[], Path], stem: str) -> None:
        self.wanted = wanted
        self.made: list[Path] = []  # by this test, to be kept or removed
        self.is_kept = False
        self.notes: list[str] = []
        self.why_not = ""
        self._folder = folder
        self._stem = stem
        self._runs: list[Path] = []

    @property
    def result(self) -> Recorded:
        """All runs of this test so far."""
        return Recorded(self._runs, self.wanted.steps)

    @contextmanager
    def __call__(self, *, pytorch: str | Sequence[str] = ()) -> Iterator[Recorded]:
        """Record a block of this process: ``with warpline_profile() as run:``.

        Args:
            pytorch: What to record of PyTorch, as for ``warpline profile --pytorch``.
        """
        if is_recorded():
            self.why_not = _ALREADY
        path = self._next()
        recorded = Recorded((), self.wanted.steps, why_not=self.why_not)
        recording = profile(
            path.with_name(path.name.replace("%", "%%")),
            trace=self.wanted.trace,
            pytorch=pytorch,
            cuda_memory_usage=self.wanted.needs_memory,
            overwrite=True,
        )
        try:
            with self._noting():
                recording.start()
        except WarplineError as error:  # its place within the recorder says nothing to a user
            __tracebackhide__ = True
            raise error.with_traceback(None) from None
        try:
            yield recorded
        finally:
            try:
                with self._noting():
                    recording.stop()
            finally:
                if recording.path is not None and recording.path.exists():
                    recorded.paths = (recording.path,)
                    self._add(recording.path)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep warnings about recording for the failure; pytest may turn them into errors."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        self.notes += [str(item.message) for item in caught if not self.why_not]

    def run(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        runs: int = 1,
        options: Sequence[str] = (),
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Recorded:
        """Record a command, once or several times, and return its runs.

        Args:
            command: The program and its arguments, such as ``[sys.executable, "train.py"]``.
            runs: How often it runs. The limits are about the mean of the runs.
            options: Options of ``warpline profile``.
            cwd: Its working directory.
            env: Its environment.
            timeout: Seconds after which a run is ended, and subprocess.TimeoutExpired raised.

        Raises:
            CaptureError: The command failed, or left no recording. Its output is the test's.
        """
        __tracebackhide__ = True
        if isinstance(command, str) or not command:
            raise UsageError(
                "a command is a list", hint='pass [sys.executable, "train.py"], without a shell'
            )
        words = [os.fspath(word) for word in command]
        memory = ["--cuda-memory-usage=true"] if self.wanted.needs_memory else []
        ours = [sys.executable, "-m", "warpline", "profile", "--quiet", "--force-overwrite=true"]
        paths = []
        for _ in range(runs):
            path = self._next()
            name = str(path).replace("%", "%%")
            flags = [f"--trace={self.wanted.trace}", *memory, *options, "--output", name, "--"]
            done = subprocess.run(
                [*ours, *flags, *words],
                stdin=subprocess.DEVNULL,
                check=False,
                cwd=cwd,
                env=env,
                timeout=timeout,
            )
            if path.exists():
                self._add(path)
                paths.append(path)
            if done.returncode or not path.exists():
                how = f"failed with exit status {done.returncode}"
                raise CaptureError(
                    f"{shlex.join(words)} {how if done.returncode else 'left no recording'}",
                    hint="run the command alone until it succeeds",
                )
        return Recorded(paths, self.wanted.steps)

    def open(self, *paths: str | os.PathLike[str]) -> Recorded:
        """Take recordings that exist, each of which is a run; they are never removed."""
        __tracebackhide__ = True
        found = [Path(path) for path in paths]
        if not found:
            raise UsageError("no recording named", hint='pass a file: open("run.sqlite")')
        self._runs += found
        return Recorded(found, self.wanted.steps)

    def _next(self) -> Path:
        number = f".{len(self.made) + 1}" if self.made else ""
        return self._folder() / f"{self._stem}{number}.warpline"

    def _add(self, path: Path) -> None:
        self.made.append(path)
        self._runs.append(path)
