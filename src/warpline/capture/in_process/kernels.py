"""``with warpline.kernels("run.warpline"):`` counts the kernels that this process launches.

It is `warpline.profile` with an agent that collects hardware counters in place of a timeline.
Launches of the block are counted one at a time, all of them unless limited.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack

from warpline.capture.counting.prepare import Prepared, prepare
from warpline.capture.flags import capabilities
from warpline.capture.flags.counting import CountingSettings, ReplayMode
from warpline.capture.in_process.profile import Profile, cuda_config
from warpline.capture.in_process.run import RangeOfAnother, Run, is_recorded
from warpline.capture.in_process.warning import warn
from warpline.capture.session.agent_config import AgentConfig, CudaConfig
from warpline.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What to count.

    Attributes:
        metrics: Metrics, in the notation of ``warpline kernels --metrics``.
        set: Names of sets, such as "basic"; by default "light", if neither metrics nor sections
            are named.
        section: Names of sections.
        kernel_name: Count kernels with this name, or in whose name the expression after "regex:"
            is found.
        launch_skip: Launches to skip, of those with this name.
        launch_count: Launches to count after them.
        sample: Launches to count of each kernel and shape; 0, the default, counts all.
        overhead: Share of the time that counting may take, in percent; 0, the default, is no limit.
        replay_mode: "kernel" repeats each launch for each pass; "range" counts the block as a
            whole, with metrics that need one pass.
    """

    metrics: str | Iterable[str]
    set: str | Iterable[str]
    section: str | Iterable[str]
    kernel_name: str | None
    launch_skip: int
    launch_count: int | None
    sample: int
    overhead: float
    replay_mode: str


class Kernels(Profile):
    """Count the kernels of this process, from `start` to `stop` or as a ``with`` block.

    Without rights to read counters, the set ``light`` records a timeline instead, with a warning.

    Args:
        path: Output file, as for `Profile`.
        overwrite: Overwrite an existing recording.
        options: See `Options`.
    """

    _NAME = "warpline.kernels"
    _EMPTY = ""  # `stop` says why

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(path, trace="cuda", overwrite=overwrite)
        self._settings = _settings(**options)
        self._prepared: Prepared | None = None

    def stop(self) -> None:
        """Stop counting and write the recording. Does nothing if it is not running.

        Raises:
            CaptureError: The recording cannot be written; the hint has the command to recover it.
        """
        super().stop()
        is_counted = self._config.counters is None or self.finished.get("counted_kernels")
        if self.finished and not is_counted:
            warn(
                f"{self.path}: no kernel was counted; kernels in CUDA graphs, and those that wait"
                " for other GPUs, are not"
            )

    def _begin(self) -> Run | RangeOfAnother:
        if not is_recorded():
            self._config = self._counting()
        return super()._begin()

    def _counting(self) -> AgentConfig:
        """Return what the agent counts, or records if it cannot count."""
        if self._prepared is None:  # planning takes a second
            self._prepared = prepare(self._settings, os.environ, None)
            for text in self._prepared.warnings:
                warn(text)
        prepared, obstacle = self._prepared, self._prepared.obstacle
        if obstacle is not None:
            warn(f"no counters: {obstacle.cause}; recording a timeline instead; {obstacle.cure}")
            return AgentConfig(nvtx=False, cuda=cuda_config())
        paths = cuda_config().library_paths
        silent = CudaConfig(library_paths=paths, is_silent=True)
        return AgentConfig(nvtx=False, cuda=silent, counters=prepared.counters)

    def _collected(self) -> list[str]:
        return super()._collected() if self._config.counters is None else [capabilities.COUNTERS]


class Measured(Generic[P, R]):
    """A function whose kernels are counted in each call.

    Attributes:
        run: The recording of the last call.
    """

    def __init__(self, function: Callable[P, R], run: Kernels) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.run = run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and count its kernels."""
        with self.run:
            return self._function(*args, **kwargs)

    @property
    def trace(self) -> Any:
        """The opened recording of the last call; CaptureError before."""
        return self.run.trace


class _Kernels:
    """``warpline.kernels``: called, it is `Kernels`; `measure` decorates functions."""

    def __call__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        **options: Unpack[Options],
    ) -> Kernels:
        """Count the kernels of this process: ``with warpline.kernels("run.warpline") as run:``.

        The arguments are those of `Kernels`. Afterwards, `run.trace` has the counters.
        """
        return Kernels(path, overwrite=overwrite, **options)

    def measure(
        self, path: str | os.PathLike[str] | None = None, **options: Unpack[Options]
    ) -> Callable[[Callable[P, R]], Measured[P, R]]:
        """Return a decorator that counts the kernels of each call of a function.

        `trace` of the decorated function has the counters of its last call.

        Args:
            path: Output file, overwritten by each call unless the name has %n. None: a temporary
                file, until this process ends.
            options: See `Options`.

        Raises:
            UsageError: An option is unknown.
        """
        _settings(**options)

        def decorate(function: Callable[P, R]) -> Measured[P, R]:
            pattern = path
            if pattern is None:
                folder = tempfile.mkdtemp(prefix="warpline-")
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                pattern = Path(folder.replace("%", "%%"), "call")
            return Measured(function, Kernels(pattern, overwrite=True, **options))

        return decorate


kernels = _Kernels()


def _settings(**options: Any) -> CountingSettings:
    """Return the settings that options make; UsageError if one is unknown or invalid."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise UsageError(
            f"unknown option {min(unknown)!r}", hint=f"use {', '.join(Options.__annotations__)}"
        )
    mode = options.get("replay_mode", "kernel")
    if mode not in {ReplayMode.KERNEL, ReplayMode.RANGE}:
        raise UsageError(f"replay_mode={mode!r}: unknown", hint='use "kernel" or "range"')
    return CountingSettings(
        sets=_words(options.get("set", ())),
        section=_words(options.get("section", ())),
        metrics=_words(options.get("metrics", ())),
        kernel_name=options.get("kernel_name"),
        launch_skip=options.get("launch_skip", 0),
        launch_count=options.get("launch_count"),
        sample=options.get("sample", 0),
        overhead=options.get("overhead", 0.0),
        replay_mode=ReplayMode(mode),
    )


def _words(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
