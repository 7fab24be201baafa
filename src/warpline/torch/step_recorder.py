"""Records some steps of a training loop whose library reports where steps begin and end.

    wait, warm-up        active              the rest of the loop
    |----|----|----|====|====|====|----|----|----|
                   recorded       written here

A step is what changes the weights once: with gradient accumulation, several batches.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from warpline.annotate import range_pop, range_push
from warpline.capture.flags import capabilities
from warpline.capture.in_process.profile import Profile
from warpline.capture.in_process.run import is_recorded, one_line
from warpline.capture.session.names import DEFAULT_STEM, ENDING, with_ending
from warpline.errors import UsageError, WarplineError
from warpline.units import plural

DOMAIN = "warpline"  # of the ranges of steps

_NAMES_PROCESS = re.compile(r"%(?:q\{|p)")  # patterns of a name that differ between ranks


class Options(TypedDict, total=False):
    """Which steps are recorded, and how.

    Attributes:
        wait: Steps to skip before each recording; by default none.
        warmup: Steps to skip after those, by default 5: their code is loaded and compiled, and
            their memory allocated, for the first time.
        active: Steps to record, by default 12: `analyze` leaves out the first and the last one.
        repeat: Number of recordings, by default 1; 0: until the loop ends.
        ranks: Ranks to record, by default rank 0: a number, several, or None for all.
        trace: APIs to trace, as for ``warpline profile -t``: "nvtx", "cuda,nvtx".
        pytorch: What to record of PyTorch, as for ``warpline profile --pytorch``: "all".
        overwrite: Overwrite an existing recording.
    """

    wait: int
    warmup: int
    active: int
    repeat: int
    ranks: int | Iterable[int] | None
    trace: str | Iterable[str]
    pytorch: str | Iterable[str]
    overwrite: bool


@dataclass(frozen=True)
class _Settings:
    """Checked options, with their defaults."""

    wait: int = 0
    warmup: int = 5
    active: int = 12
    repeat: int = 1
    ranks: int | Iterable[int] | None = 0
    trace: str | Iterable[str] = capabilities.DEFAULT
    pytorch: str | Iterable[str] = ()
    overwrite: bool = False

    def __post_init__(self) -> None:
        for name, least in (("wait", 0), ("warmup", 0), ("active", 1), ("repeat", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name}={getattr(self, name)}: too low", hint=f"use {least}")
        # An unknown word is an error now, not in the middle of training.
        Profile(trace=self.trace, pytorch=self.pytorch)


class StepRecorder:
    """Records steps of a training loop, and names them with ranges: ``step 7``.

    In a program that is recorded by ``warpline profile``, it adds the ranges to that recording and
    writes none of its own.

    Args:
        path: Output file, with the patterns of ``warpline profile -o``: %p %h %n %q{NAME}. None:
            the first free name of report1.warpline, report2.warpline and so on. With several
            ranks, ``-rankN`` is added unless the name has %p or %q; with several recordings, a
            number, unless it has %n.
        options: See `Options`.

    Attributes:
        paths: The recordings that were written.

    Raises:
        UsageError: A number is too low, or `trace` names an unknown API.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, **options: Unpack[Options]
    ) -> None:
        settings = _Settings(**options)
        ranks = settings.ranks
        self._pattern = None if path is None else os.fspath(path)
        self._skipped = settings.wait + settings.warmup
        self._ranks = None if ranks is None else _numbers(ranks)
        self._settings = settings
        self.paths: list[Path] = []
        self._profile: Profile | None = None
        self._output: str | None = None
        self._is_chosen = False  # whether this rank writes recordings
        self._is_open = False  # whether a step is under way
        self._seen = 0  # steps that have ended since the loop began, or since the last recording
        self._recorded = 0  # steps that have ended in the present recording

    def __getstate__(self) -> dict[str, Any]:
        """Return what a process that is started with this recorder gets: never a recording."""
        return {**self.__dict__, "_profile": None, "_is_open": False}

    def begin(self, rank: int = 0) -> None:
        """Begin a loop. One that has not ended, because of an exception, ends here.

        Args:
            rank: The rank of this process.
        """
        self._end("another loop began")
        self._seen = 0
        is_wanted = self._ranks is None or rank in self._ranks
        self._is_chosen = is_wanted and not is_recorded()
        self._output = self._output_of(rank)

    def begin_step(self, number: int) -> None:
        """Begin a step, unless one is under way: with gradient accumulation, at its first batch.

        Args:
            number: The number of the step, for its name.
        """
        if self._is_open:
            return
        if self._is_chosen and self._profile is None and self._is_due():
            self._start()
        range_push(f"step {number}", domain=DOMAIN)
        self._is_open = True

    def end_step(self) -> None:
        """End the step that is under way, if there is one."""
        if not self._is_open:
            return
        self._is_open = False
        range_pop(domain=DOMAIN)
        self._seen += 1
        if self._profile is not None:
            self._recorded += 1
            if self._recorded == self._settings.active:
                self._stop()

    def interrupt(self, why: str) -> None:
        """End a recording that is under way, before something that is no step.

        Args:
            why: What happens, for the message: "validation began".
        """
        if self._profile is not None:
            self._stop(why)

    def end(self, why: str = "training ended") -> None:
        """End the loop, and a recording that is under way.

        Args:
            why: What happened, for the message.
        """
        self._end(why)
        if self._is_chosen and not self.paths:
            _say(
                f"nothing was recorded: {why} after {plural(self._seen, 'step')}, and the first"
                f" {plural(self._skipped, 'step')} are skipped; lower wait and warmup"
            )
        self._is_chosen = False

    def _end(self, why: str) -> None:
        # The step that is under way is cut by the end of the recording, and marked so there.
        self.interrupt(why)
        if self._is_open:
            self._is_open = False
            range_pop(domain=DOMAIN)

    def _is_due(self) -> bool:
        is_left = not self._settings.repeat or len(self.paths) < self._settings.repeat
        return is_left and self._seen >= self._skipped

    def _start(self) -> None:
        _synchronize()  # the work of earlier steps ends before
        chosen = self._settings
        profile = Profile(
            self._output,
            trace=chosen.trace,
            pytorch=chosen.pytorch,
            overwrite=chosen.overwrite,
        )
        try:
            profile.start()
        except WarplineError as error:  # must not end the training
            self._is_chosen = False
            _say(f"the training is not recorded: {one_line(error)}")
            return
        self._profile, self._recorded = profile, 0
        # Before Warpline's own, which writes the recording without a word. A program may end
        # without its library reporting that: Transformers reports no exceptions.
        atexit.register(self._stop, "the program ended")

    def _stop(self, why: str | None = None) -> None:
        profile, self._profile = self._profile, None
        if profile is None:
            return
        atexit.unregister(self._stop)
        self._seen = 0
        try:
            _synchronize()
            profile.stop()
        except WarplineError as error:
            _say(one_line(error))
            return
        if profile.path is None or not profile.finished:  # in a fork
            return
        self.paths.append(profile.path)
        count = plural(self._recorded, "step")
        if why is not None:
            count = f"{self._recorded} of {plural(self._settings.active, 'step')} ({why})"
        _say(f"recorded {count}; next: warpline analyze {_short(profile.path)}")

    def _output_of(self, rank: int) -> str | None:
        """Return the name of the recordings of a rank."""
        has_several = self._ranks is None or len(self._ranks) > 1
        pattern = self._pattern
        if pattern is None:
            return f"{DEFAULT_STEM}%n-rank{rank}" if has_several else None
        stem = with_ending(pattern).removesuffix(ENDING)
        if has_several and not _NAMES_PROCESS.search(stem):
            stem += f"-rank{rank}"
        return stem if self._settings.repeat == 1 or "%n" in stem else f"{stem}-%n"


def _numbers(ranks: int | Iterable[int]) -> frozenset[int]:
    return frozenset((ranks,) if isinstance(ranks, int) else ranks)


def _synchronize() -> None:
    """Wait for the GPU if the program uses it through PyTorch."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()


def _short(path: Path) -> str:
    """Return the path as it is shortest from the current directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _say(text: str) -> None:
    """Print a line to stderr; a closed one is no reason to end a training."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"warpline: {text}\n")
            sys.stderr.flush()
