"""Runs two commands in turn, recorded or only timed, for ``warpline gate``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import CaptureError, TargetFailedError
from warpline.units import format_ns

if TYPE_CHECKING:
    import shlex
    import subprocess
    import time
else:
    shlex = lazy("shlex")
    subprocess = lazy("subprocess")
    time = lazy("time")

SIDES = "AB"
_SHOWN_LINES = 20  # of the output of a command that fails


class Plan(NamedTuple):
    """What to run.

    Attributes:
        commands: One or two command lines.
        runs: Counted runs of each.
        warm_up: Runs of each before them that do not count.
        is_interleaved: Whether the commands run in turn: A B, then B A, and so on, so that a
            machine that becomes slower or faster meanwhile affects both alike. Otherwise all runs
            of the first command precede those of the second.
        is_bare: Whether commands are only timed.
        folder: Where recordings and outputs go.
    """

    commands: tuple[tuple[str, ...], ...]
    runs: int
    warm_up: int
    is_interleaved: bool
    is_bare: bool
    folder: Path


def order(plan: Plan) -> list[tuple[int, int]]:
    """Return the side and the number of each run, in order; numbers below 0 are warm-up runs."""
    numbers = range(-plan.warm_up, plan.runs)
    sides = list(range(len(plan.commands)))
    if not plan.is_interleaved:
        return [(side, number) for side in sides for number in numbers]
    # In pairs that alternate, a steady drift cancels out.
    return [
        (side, number)
        for number in numbers
        for side in sides[:: -1 if (number + plan.warm_up) % 2 else 1]
    ]


def run(plan: Plan, tell: Callable[[str], None]) -> list[list[Path | float]]:
    """Run the commands and return the recording of each run by side, or its time in ns.

    Raises:
        TargetFailedError: A command cannot be started.
        CaptureError: A command failed, or recorded nothing.
    """
    results: list[list[Path | float]] = [[] for _ in plan.commands]
    for side, number in order(plan):
        name = f"{SIDES[side]}{number + 1}" if number >= 0 else f"{SIDES[side]}-warm-up{-number}"
        recording = None if plan.is_bare else plan.folder / f"{name}.warpline"
        time_ns = _run(plan.commands[side], plan.folder / f"{name}.log", recording)
        what = f"run {number + 1} of {plan.runs}" if number >= 0 else "warm-up run"
        of_side = f"{SIDES[side]}, " if len(plan.commands) > 1 else ""
        tell(f"{of_side}{what}: {format_ns(time_ns)}")
        if number >= 0:
            results[side].append(time_ns if recording is None else recording)
        elif recording is not None:
            recording.unlink(missing_ok=True)
    return results


def _run(command: Sequence[str], log: Path, recording: Path | None) -> int:
    """Run a command and return its time in ns."""
    words = list(command)
    if recording is not None:
        profile = [sys.executable, "-m", "warpline", "profile", "--quiet", "--force-overwrite=true"]
        words = [*profile, "--output", str(recording), "--", *command]
    with log.open("wb") as output:
        begin = time.perf_counter_ns()
        try:
            done = subprocess.run(
                words,
                # The first run would read all of ours, and leave nothing to the others.
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            raise TargetFailedError(
                f"cannot start {command[0]}: {error.strerror or error}",
                exit_code=TargetFailedError.NOT_FOUND
                if isinstance(error, FileNotFoundError)
                else TargetFailedError.NOT_RUNNABLE,
                hint="name a program on PATH, or its path",
            ) from error
        time_ns = time.perf_counter_ns() - begin
    if done.returncode:
        _show_end(log)
        raise CaptureError(
            f"{shlex.join(command)} {_how_it_ended(done.returncode)}",
            hint="run the command alone until it succeeds",
        )
    if recording is not None and not recording.exists():
        _show_end(log)
        raise CaptureError(
            f"{shlex.join(command)} left no recording", hint="use --bare to compare its time"
        )
    return time_ns


def _how_it_ended(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _show_end(log: Path) -> None:
    """Print the end of what a command printed."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - 8192, 0))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in lines[-_SHOWN_LINES:]:
        talk.note(f"  {line}")
