"""The runs of a sweep: a program at one point, its counters recorded to a directory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.launch import Outcome, Talk, UnfinishedError, launch
from warpline.capture.session.exits import signal_name
from warpline.capture.session.facts import StoppedBy
from warpline.errors import TargetFailedError
from warpline.sweep import failures
from warpline.sweep.points import Point, filled
from warpline.sweep.state import Attempt
from warpline.units import plural


@dataclass(frozen=True)
class Recorded:
    """What a run of the program records at each point.

    Attributes:
        settings: The settings of the recording; the command line has parameters in braces.
        ending: End of the names of its files; empty for the first run.
        what: What it records, in words.
    """

    settings: CaptureSettings
    ending: str
    what: str


class SweptRuns:
    """Runs a program at the points of a sweep, once for each thing to record.

    What a program prints goes to a file beside its recording. If the first of its runs at a point
    fails, so does the point; if a later one does, what it would have recorded is missing.

    Args:
        runs: What to record, at least one.
        folder: The sweep's directory.
        seconds: Time limit of a run; None for none.
        ignores_status: Whether a run does not fail because its exit status is not 0.
        lacked_memory: Whether the recording of a run that failed says that GPU memory ran out.

    Attributes:
        signal: The signal that ended the sweep; None if none did.
    """

    def __init__(
        self,
        runs: Sequence[Recorded],
        folder: Path,
        seconds: float | None = None,
        *,
        ignores_status: bool = False,
        lacked_memory: Callable[[Path], bool] = lambda _: False,
    ) -> None:
        self._runs, self._folder = runs, folder
        self._lacked_memory = lacked_memory
        self._seconds, self._ignores_status = seconds, ignores_status
        self.signal: int | None = None

    def __call__(self, point: Point, name: str) -> Attempt | None:
        """Run the program at a point; None if this process was asked to end meanwhile.

        Args:
            point: The point.
            name: Name of its files, without their ending.
        """
        began = time.monotonic()
        files: list[str] = []
        notes: list[str] = []
        failure = None
        for run in self._runs:
            stem = name + run.ending
            file, why, warnings = self._run(run, point, stem)
            if self.signal is not None:
                for made in files:
                    (self._folder / made).unlink(missing_ok=True)
                return None
            notes += [text for text in warnings if text not in notes]
            if file is not None:
                files.append(file)
            elif not files:
                failure = why
                break
            else:
                notes.append(f"{run.what} not counted: {why}")
        return Attempt(tuple(files), failure, round(time.monotonic() - began, 3), tuple(notes))

    def _run(
        self, run: Recorded, point: Point, stem: str
    ) -> tuple[str | None, str | None, Sequence[str]]:
        """Return the recording or why there is none, and warnings."""
        log = self._folder / f"{stem}.log"
        settings = replace(
            run.settings,
            command=filled(run.settings.command, point),
            output=str(self._folder / stem).replace("%", "%%"),
            force_overwrite=True,
            output_file=log,
            quiet=True,
            duration=self._seconds,
            kill=signal.SIGKILL,
        )
        warnings: list[str] = []
        talk = Talk(warn=warnings.append, note=_nothing, progress=_nothing)
        kills = failures.kernel_kills()
        try:
            outcome = launch(settings, talk)
        except UnfinishedError as error:
            self.signal = error.ending.asked
            return None, error.message, warnings
        except TargetFailedError as error:
            return None, error.message, warnings
        if outcome.ending.asked is not None:
            self.signal = outcome.ending.asked
        is_killed = outcome.ending.signal == signal.SIGKILL and kills != failures.kernel_kills()
        why = self._why_failed(outcome, log, is_killed_by_kernel=is_killed)
        if why is None and self.signal is None:
            warnings += outcome.finished.get("warnings", ())
            if lost := outcome.finished.get("lost"):
                warnings.append(f"{plural(lost, 'event')} dropped")
            return outcome.output.name, None, warnings
        outcome.output.unlink(missing_ok=True)
        return None, why, warnings

    def _why_failed(self, outcome: Outcome, log: Path, *, is_killed_by_kernel: bool) -> str | None:
        """Return why a run failed; None if it did not."""
        ending = outcome.ending
        if ending.stopped_by is StoppedBy.DURATION:
            return f"took longer than {self._seconds:g} s"
        if ending.signal is not None or (ending.status and not self._ignores_status):
            how = f"ended by {signal_name(ending.signal)}" if ending.signal is not None else ""
            how = how or f"exit status {os.waitstatus_to_exitcode(ending.status)}"
            printed = failures.end_of(log)
            why = failures.why(how, printed, is_killed_by_kernel=is_killed_by_kernel)
            is_known = why == failures.OUT_OF_MEMORY or is_killed_by_kernel
            if not is_known and self._lacked_memory(outcome.output):
                return failures.OUT_OF_MEMORY
            return why
        if outcome.reason is not None:
            is_counted = self._runs[0].settings.counters is not None
            nothing = "no kernel was counted" if is_counted else "nothing was recorded"
            return f"{nothing}: {outcome.reason.text}"
        return None


def _nothing(_: object) -> None:
    """Print nothing: a sweep has its own messages."""
