"""Watch a program while it runs: signals, time limits, remaining processes.

The rules for signals:

- Ctrl-C stops the recording. A second one kills all processes.
- SIGTERM, SIGHUP and SIGQUIT are for the program. A second one kills all processes.
- SIGUSR1 and SIGUSR2 are for the program, unless `--when "signal USR2"` is given.
- Signals for the program are forwarded if only the launcher received them, not if they came from
  the terminal or went to the whole process group.
- Signals that were ignored at startup, as with nohup or in background jobs of a script, have no
  effect on the launcher. They are forwarded to the program, which may have a handler.
- SIGTSTP: release the row of the status line, then stop like the program does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from warpline.capture.finishing.process import running
from warpline.capture.flags.settings import CaptureSettings, Wait
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.recorded import Recorded
from warpline.capture.launcher.signals import FORWARDED, FROM_KERNEL, PASSED_ON, Signals
from warpline.capture.launcher.status import StatusLine
from warpline.capture.machine import processes
from warpline.capture.session.exits import signal_name
from warpline.capture.session.facts import StoppedBy
from warpline.capture.session.session import SESSION_VARIABLE

_SAME_S = 0.3  # signals closer together count as one: to the process, and to its group
_LOOK_S = 0.5
_REST = 50  # inspecting thousands of threads is slow: use at most 1/50 of a CPU
_POLL_S = 0.05
_DRAW_AFTER_S = 1.0
_LEFT_BEHIND_S = 3.0
_PATIENCE_S = 1.0
_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_NAMES_SHOWN = 3

Say = Callable[[str], None]


class Recordings(Protocol):
    """The recordings of a program while it runs, at most one at a time."""

    @property
    def current(self) -> Recorded | None:
        """The one that is under way, or None."""

    @property
    def folder(self) -> Path:
        """The directory in the program's environment, by which its processes find the session."""

    @property
    def own(self) -> Collection[int]:
        """Processes of Warpline's own that have been started since."""

    @property
    def descriptors(self) -> Sequence[int]:
        """Descriptors that become readable when `serve` has something to do."""

    def next_times(self) -> Sequence[float]:
        """Return the monotonic times, in seconds, at which `serve` is due."""

    def serve(self) -> None:
        """Start or stop recordings, as others ask for it."""

    def stopped(self, recorded: Recorded, why: StoppedBy) -> None:
        """Take note that a recording has stopped by itself."""

    def doing(self) -> str:
        """Return what is done while there is no recording."""


class WholeRun:
    """The one recording of ``warpline profile``.

    Args:
        recorded: The session.
    """

    descriptors: Sequence[int] = ()
    own: Collection[int] = ()

    def __init__(self, recorded: Recorded) -> None:
        self.current = recorded
        self.folder = recorded.session.folder

    def next_times(self) -> Sequence[float]:
        """Return no time."""
        return ()

    def serve(self) -> None:
        """Do nothing: nobody can ask."""

    def stopped(self, recorded: Recorded, why: StoppedBy) -> None:
        """Do nothing: the recording is written when the program has ended."""

    def doing(self) -> str:
        """Return nothing: there always is a recording."""
        return ""


class Watch:
    """Watches a running program until there is nothing more to wait for.

    Args:
        pid: The program.
        recordings: Its recordings.
        settings: The settings of the program's run.
        signals: Blocked before the program was started.
        say: Prints a note for the user.
        own: Processes of Warpline's own. They are children of the launcher if it is init, as in a
            container, and are not waited for.
    """

    def __init__(
        self,
        pid: int,
        recordings: Recordings,
        settings: CaptureSettings,
        signals: Signals,
        say: Say,
        *,
        own: Collection[int | None] = (),
    ) -> None:
        self._pid = pid
        self._own = frozenset(pid for pid in own if pid is not None)
        self._recordings = recordings
        self._settings = settings
        self._signals = signals
        self._say = say
        self._status = StatusLine(2, is_wanted=not settings.quiet)
        self._ending = Ending()
        self._began = time.monotonic()
        self._ended: float | None = None  # when the program ended
        self._asked_at: float | None = None  # when the first terminating signal came
        self._children_left = True
        self._abandoned = False
        self._looks: dict[int, int] = {}
        self._look_at = self._began
        self._drain_asked_at: float | None = None  # when the agents were asked to drain GPU work
        self._end_asked_at: float | None = None  # when the program was asked to end
        self._told_left = False
        self._told_waiting = False

    def run(self) -> Ending:
        """Watch until the end."""
        try:
            while not self._is_over():
                received = self._signals.take(self._next(), self._descriptors())
                if received is not None:
                    self._receive(received)
                self._recordings.serve()
                self._reap()
                self._keep_time()
                began = time.monotonic()
                if began >= self._look_at:
                    self._look()
                    ended = time.monotonic()
                    self._look_at = ended + max(_LOOK_S, (ended - began) * _REST)
        finally:
            self._status.clear()
            if (recorded := self._recordings.current) is not None:
                self._ending.sampled = recorded.close()
                self._ending.stopped_ns = recorded.stopped_ns
                self._ending.stopped_by = recorded.stopped_by
        self._ending.left = [pid for pid in self._descendants() if processes.is_alive(pid)]
        return self._ending

    def end_program(self, number: int) -> None:
        """Ask the program to end by a signal, once its GPU records are written."""
        self._ending.ended_by = number
        self._drain()

    def _is_over(self) -> bool:
        if self._ended is None:
            return False
        return not self._children_left or self._abandoned or self._settings.wait is Wait.PRIMARY

    def _descriptors(self) -> Sequence[int]:
        recorded = self._recordings.current
        of_processes = () if recorded is None else recorded.attached.descriptors
        return (*of_processes, *self._recordings.descriptors)

    def _next(self) -> float:
        """Return the time in seconds until the next action."""
        if self._drain_asked_at is not None:
            return _POLL_S
        recorded = self._recordings.current
        times = [self._look_at, *self._recordings.next_times()]
        if recorded is not None:
            times += recorded.next_times()
        return min(times) - time.monotonic()

    # --- Signals ---------------------------------------------------------------------------------

    def _receive(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        if number == signal.SIGTSTP:
            self._status.clear()
            self._signals.stop_here()
        elif number in PASSED_ON | FORWARDED and not self._is_for_keeper(number):
            has_it = self._signals.was_for_all(number) and self._is_in_our_group()
            has_it = has_it or received.si_code == FROM_KERNEL
            if self._signals.is_ours(number):
                self._asked(number, has_it=has_it)
            elif not has_it:
                self._pass_on(number)

    def _is_for_keeper(self, number: int) -> bool:
        """Have what is kept written if a signal asks for it. Return whether it does."""
        recorded = self._recordings.current
        keeper = None if recorded is None else recorded.keeper
        is_heard = keeper is not None and keeper.hear(number)
        return is_heard or number == self._settings.triggers.signal

    def _is_in_our_group(self) -> bool:
        try:
            return os.getpgid(self._pid) == os.getpgrp()
        except OSError:
            return False

    def _asked(self, number: int, *, has_it: bool) -> None:
        now = time.monotonic()
        if self._asked_at is not None:
            if now - self._asked_at >= _SAME_S:
                self._kill()
            return
        self._asked_at = now
        self._ending.asked = number
        if number == signal.SIGQUIT and has_it:
            return  # the program handles it; the launcher only writes the recording
        if number == signal.SIGINT:
            self._ending.interrupted = True
            self._stop_recording()
        if self._ended is not None:
            self._abandoned = True
        elif not has_it:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        if self._ended is None:
            with contextlib.suppress(OSError):
                os.kill(self._pid, number)

    def _kill(self) -> None:
        self._ending.killed = True
        self._abandoned = True
        self._stop_recording()
        processes.send(os.getpid(), signal.SIGKILL)

    # --- Time ------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        recorded = self._recordings.current
        if recorded is not None:
            recorded.attached.sweep()
            why = recorded.keep_time(is_over=self._ended is not None)
            if why is not None:
                self._recordings.stopped(recorded, why)
                self._end_program_after(why, recorded.settings)
        if self._drain_asked_at is not None:
            self._end_drained_program()

    def _stop_recording(self) -> None:
        if (recorded := self._recordings.current) is not None:
            recorded.stop(StoppedBy.INTERRUPT, is_over=self._ended is not None)

    def _end_program_after(self, why: StoppedBy, settings: CaptureSettings) -> None:
        """Stop the program if the settings of a recording ask for it after this stop of it."""
        if settings.kill is None:
            return
        if why is StoppedBy.DURATION and settings.stop_on_exit:
            self._end_program("--duration has elapsed", "use -x false to keep it running")
        elif why is StoppedBy.LAUNCH_COUNT:
            self._end_program(
                "the launches of -c have been counted", "omit --kill to keep it running"
            )
        elif why is StoppedBy.CAPTURE_RANGE and settings.ends_program:
            self._end_program(
                "the capture range has ended", "use --capture-range-end=stop to keep it running"
            )

    def _end_program(self, why: str, hint: str) -> None:
        if self._settings.kill is not None:
            name = signal_name(self._settings.kill)
            self._tell(f"{why}; stopping the program with {name} ({hint})")
            self.end_program(self._settings.kill)

    def _drain(self) -> None:
        self._drain_asked_at = time.monotonic()
        if (recorded := self._recordings.current) is not None:
            recorded.control.ask_to_drain()
        self._end_drained_program()

    def _end_drained_program(self) -> None:
        """Stop the program once its GPU records are written, or after a timeout."""
        now = time.monotonic()
        recorded = self._recordings.current
        holding = () if recorded is None else recorded.control.holds_work()
        alive = [pid for pid in holding if processes.is_alive(pid)]
        if alive and self._drain_asked_at is not None and now - self._drain_asked_at < _DRAIN_S:
            return
        self._drain_asked_at = None
        if self._ending.ended_by is not None:
            self._end_asked_at = now
            processes.send(os.getpid(), self._ending.ended_by)

    # --- Processes -------------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._children_left = False
                return
            if pid == 0:
                is_over = self._ended is not None
                self._children_left = not is_over or self._has_children_to_wait_for()
                return
            if (recorded := self._recordings.current) is not None:
                recorded.attached.reaped(pid, status)
            if pid == self._pid:
                self._ending.status = status
                self._ended = time.monotonic()

    def _has_children_to_wait_for(self) -> bool:
        children = {*processes.children(os.getpid())}
        return (
            not children or not children <= self._all_own()
        )  # where /proc lists none, there are some

    def _descendants(self) -> list[int]:
        found = processes.descendants(os.getpid(), without=self._all_own())
        own = self._all_own()  # again, with those that began meanwhile
        return [pid for pid in found if pid not in own]

    def _all_own(self) -> frozenset[int]:
        return self._own | frozenset(self._recordings.own) | running()

    def _look(self) -> None:
        """Do periodic work: inspect processes and ranges, draw the status line."""
        alive = self._descendants()
        if (recorded := self._recordings.current) is not None:
            recorded.look(alive)
        self._ending.seen = max(self._ending.seen, len(alive))
        for pid in alive:
            looks = self._looks[pid] = self._looks.get(pid, 0) + 1
            if looks <= 2:  # between fork and exec, a process resembles its parent
                self._inspect(pid)
        now = time.monotonic()
        if self._ended is not None and now - self._ended > _LEFT_BEHIND_S:
            self._tell_left(alive)
        elif self._ending.interrupted and now - (self._asked_at or now) > _PATIENCE_S:
            self._tell_once(
                "recording has stopped; waiting for the program (press Ctrl-C to kill it)"
            )
        elif self._end_asked_at is not None and now - self._end_asked_at > _LEFT_BEHIND_S:
            name = signal_name(self._ending.ended_by or 0)
            self._tell_once(
                f"the program is still running after {name}"
                " (press Ctrl-C twice to kill it, or use --kill=sigkill)"
            )
        if self._status.is_on and time.monotonic() - self._began >= _DRAW_AFTER_S:
            self._status.draw(self._line(len(alive)))

    def _inspect(self, pid: int) -> None:
        executable = processes.executable_of(pid)
        if executable and executable not in self._ending.unloadable:
            why = processes.cannot_be_recorded(executable)
            if why:
                self._ending.unloadable[executable] = why
        found = processes.variable_of(pid, SESSION_VARIABLE)
        if found is not None and found != str(self._recordings.folder):
            self._ending.unrecorded[pid] = processes.name_of(pid)

    # --- Talk ------------------------------------------------------------------------------------

    def _tell(self, text: str) -> None:
        if not self._settings.quiet:
            self._status.clear()
            self._say(text)

    def _tell_once(self, text: str) -> None:
        if not self._told_waiting and self._ended is None:
            self._told_waiting = True
            self._tell(text)

    def _tell_left(self, alive: list[int]) -> None:
        if self._told_left or not alive:
            return
        self._told_left = True
        names = [processes.name_of(pid) for pid in alive]
        shown = ", ".join(dict.fromkeys(name for name in names[:_NAMES_SHOWN] if name))
        count = "a process" if len(alive) == 1 else f"{len(alive)} processes"
        self._tell(
            f"the program has ended; waiting for {count} it left running: {shown}"
            " (press Ctrl-C to stop waiting, or use --wait=primary)"
        )

    def _line(self, alive: int) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        recorded = self._recordings.current
        if self._ended is not None:
            doing = "waiting for remaining processes"
        else:
            doing = self._recordings.doing() if recorded is None else recorded.doing()
        events, size, dropped = ("", "", "") if recorded is None else recorded.volume()
        processes_alive = f"{alive} process{'es' if alive != 1 else ''}"
        parts = (
            f"warpline: {doing}",
            f"{minutes}:{seconds:02}",
            events,
            size,
            processes_alive,
            dropped,
        )
        return "  ".join(filter(None, parts))
