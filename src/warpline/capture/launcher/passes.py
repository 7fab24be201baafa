"""A program that runs once for each pass of its counters: application replay."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.launch import Outcome, Talk, UnfinishedError, launch
from warpline.capture.session.exits import signal_name
from warpline.errors import CaptureError

_STANDARD_INPUT = 0


@dataclass(frozen=True)
class Passes:
    """What the runs of a program have recorded.

    Attributes:
        outcomes: The runs whose launches were counted, in order.
        last: How the last run ended.
        why_ended: Why there are fewer runs than passes, in words; None if all were made.
        error: The recording that could not be written; None if all could.
    """

    outcomes: tuple[Outcome, ...]
    last: Ending
    why_ended: str | None = None
    error: CaptureError | None = None


def launch_passes(
    runs: Sequence[CaptureSettings], talk: Talk, *, goes_on_after_failure: bool
) -> Passes:
    """Run a program once for each of the settings, until a run fails.

    A run fails if its exit status is not 0, a signal ended it, or no kernel was counted. Its
    launches are then not those of the others, so it is left out, unless it is the first.

    Args:
        runs: The settings of each run.
        talk: Prints messages: each warning once.
        goes_on_after_failure: Whether runs follow one whose exit status is not 0.

    Raises:
        WarplineError: The program was not started the first time.
        UnfinishedError: The recording of the first run could not be written.
    """
    rewind = _rewinder(talk)
    talk = replace(talk, warn=_once(talk.warn), note=_once(talk.note))
    outcomes: list[Outcome] = []
    for number, settings in enumerate(runs, 1):
        talk.note(f"pass {number} of {len(runs)}")
        if outcomes:
            rewind()
        try:
            outcome = launch(settings, talk)
        except UnfinishedError as error:
            if not outcomes:
                raise
            return Passes((*outcomes,), error.ending, f"pass {number} was not recorded", error)
        failure = _failure(outcome)
        is_last = failure is not None and not (goes_on_after_failure and _is_status(outcome))
        if not outcomes or not is_last:
            outcomes.append(outcome)
        if is_last:
            return Passes((*outcomes,), outcome.ending, f"pass {number} {failure}")
    return Passes((*outcomes,), outcome.ending)


def _failure(outcome: Outcome) -> str | None:
    """Return how a run failed; None if it did not."""
    ending = outcome.ending
    if ending.interrupted:
        return "was interrupted"
    if ending.signal is not None:
        return f"was ended by {signal_name(ending.signal)}"
    if outcome.reason is not None:
        return f"counted no kernel: {outcome.reason.text}"
    if ending.status:
        status = os.waitstatus_to_exitcode(ending.status)
        return f"ended with exit status {status} (use --check-exit-code no to go on)"
    return None


def _is_status(outcome: Outcome) -> bool:
    """Return whether all that failed is the exit status."""
    ending = outcome.ending
    return not ending.interrupted and ending.signal is None and outcome.reason is None


def _once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that says each text once."""
    said: set[str] = set()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    return say_once


def _rewinder(talk: Talk) -> Callable[[], None]:
    """Return what gives the next run the standard input that the first one had.

    A file is read again from the same place. What was read from a pipe is gone.
    """
    with suppress(OSError):
        mode = os.fstat(_STANDARD_INPUT).st_mode
        if stat.S_ISREG(mode):
            place = os.lseek(_STANDARD_INPUT, 0, os.SEEK_CUR)
            return lambda: _seek(place)
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            talk.warn("standard input is a pipe: only the first pass can read it; use a file")
    return lambda: None


def _seek(place: int) -> None:
    with suppress(OSError):
        os.lseek(_STANDARD_INPUT, place, os.SEEK_SET)
