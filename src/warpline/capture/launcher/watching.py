"""Watch a program while it runs: time limits, signals, capture ranges, remaining processes.

The rules for signals:

- Ctrl-C stops the recording. A second one kills all processes.
- SIGTERM, SIGHUP and SIGQUIT are for the program. A second one kills all processes.
- SIGUSR1 and SIGUSR2 are for the program.
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
from collections.abc import Callable, Collection

from warpline.capture.flags.settings import CaptureSettings, Wait
from warpline.capture.launcher.attached import Attached
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.signals import FORWARDED, FROM_KERNEL, PASSED_ON, Signals
from warpline.capture.launcher.status import StatusLine
from warpline.capture.launcher.time_windows import TimeSampling
from warpline.capture.machine import processes
from warpline.capture.machine.loaded import loaded_versions
from warpline.capture.session.control import RangeMode, State
from warpline.capture.session.exits import signal_name
from warpline.capture.session.facts import StoppedBy
from warpline.capture.session.session import SESSION_VARIABLE, Session, measure
from warpline.units import format_bytes

_SAME_S = 0.3  # signals closer together count as one: to the process, and to its group
_LOOK_S = 0.5
_REST = 50  # inspecting thousands of threads is slow: use at most 1/50 of a CPU
_POLL_S = 0.05
_DRAW_AFTER_S = 1.0
_LEFT_BEHIND_S = 3.0
_PATIENCE_S = 1.0
_DRAIN_S = 5.0  # the GPU may be waiting for an event that never happens
_NAMES_SHOWN = 3
# Frameworks are loaded in the first seconds, a few of them later. Reading what a process has mapped
# holds up its own changes of that for a moment, so this is done rarely.
_VERSION_LOOKS = frozenset(2**power for power in range(1, 9))

Say = Callable[[str], None]


class Watch:
    """Watches a running program until there is nothing more to wait for.

    Args:
        pid: The program.
        session: The session that records it.
        settings: The settings of the recording.
        signals: Blocked before the program was started.
        say: Prints a note for the user.
        own: Processes of Warpline's own. They are children of the launcher if it is init, as in a
            container, and are not waited for.
    """

    def __init__(
        self,
        pid: int,
        session: Session,
        settings: CaptureSettings,
        signals: Signals,
        say: Say,
        *,
        own: Collection[int | None] = (),
    ) -> None:
        self._pid = pid
        self._own = frozenset(pid for pid in own if pid is not None)
        self._session = session
        self._control = session.control
        self._attached = Attached(session.folder, session.control, pid)
        self._settings = settings
        self._signals = signals
        self._say = say
        self._status = StatusLine(2, is_wanted=not settings.quiet)
        self._ending = Ending()
        self._began = time.monotonic()
        sampling = settings.sampling
        # Counters are those of whole steps, or of steps as passes, so no time windows are counted.
        is_counting = settings.counters is not None
        self._sampling = (
            TimeSampling(self._control, sampling, is_steps_only=is_counting) if sampling else None
        )
        self._ended: float | None = None  # when the program ended
        self._is_recording = self._control.state is State.RECORDING
        self._has_stopped = False
        self._asked_at: float | None = None  # when the first terminating signal came
        self._children_left = True
        self._abandoned = False
        self._looks: dict[int, int] = {}
        self._look_at = self._began
        self._miscounts = 0
        self._drain_asked_at: float | None = None  # when the agents were asked to drain GPU work
        self._end_asked_at: float | None = None  # when the program was asked to end
        self._told_left = False
        self._told_waiting = False

    def run(self) -> Ending:
        """Watch until the end."""
        try:
            while not self._is_over():
                received = self._signals.take(self._next(), self._attached.descriptors)
                if received is not None:
                    self._receive(received)
                self._reap()
                self._attached.sweep()
                self._keep_time()
                if self._sampling is not None and self._is_recording:
                    self._sampling.look()
                began = time.monotonic()
                if began >= self._look_at:
                    self._look()
                    ended = time.monotonic()
                    self._look_at = ended + max(_LOOK_S, (ended - began) * _REST)
        finally:
            self._status.clear()
            self._attached.close()
        if self._sampling is not None:
            self._sampling.end()
            self._ending.sampled = self._sampling.facts()
        self._ending.left = [pid for pid in self._descendants() if processes.is_alive(pid)]
        return self._ending

    def _is_over(self) -> bool:
        if self._ended is None:
            return False
        return not self._children_left or self._abandoned or self._settings.wait is Wait.PRIMARY

    def _next(self) -> float:
        """Return the time in seconds until the next action."""
        now = time.monotonic()
        if self._waits_for_windows() or self._drain_asked_at is not None:
            return _POLL_S
        times = [self._look_at]
        if self._sampling is not None and self._is_recording:
            times.append(now + self._sampling.next())
        if not self._is_recording:
            times.append(self._began + self._settings.delay)
        if self._settings.duration is not None and not self._has_stopped:
            times.append(self._began + self._settings.delay + self._settings.duration)
        return min(times) - now

    def _waits_for_windows(self) -> bool:
        return bool(self._settings.windows_wanted) and not self._has_stopped

    # --- Signals ---------------------------------------------------------------------------------

    def _receive(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        if number == signal.SIGTSTP:
            self._status.clear()
            self._signals.stop_here()
        elif number in PASSED_ON | FORWARDED:
            has_it = self._signals.was_for_all(number) and self._is_in_our_group()
            has_it = has_it or received.si_code == FROM_KERNEL
            if self._signals.is_ours(number):
                self._asked(number, has_it=has_it)
            elif not has_it:
                self._pass_on(number)

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
            self._stop_recording(StoppedBy.INTERRUPT)
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
        self._stop_recording(StoppedBy.INTERRUPT)
        processes.send(os.getpid(), signal.SIGKILL)

    # --- Time ------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        passed = time.monotonic() - self._began
        settings = self._settings
        if not self._is_recording and passed >= settings.delay:
            self._begin_recording()
        if self._drain_asked_at is not None:
            self._end_drained_program()
        if self._has_stopped:
            return
        if settings.duration is not None and passed >= settings.delay + settings.duration:
            self._stop_recording(StoppedBy.DURATION)
            if settings.stop_on_exit:
                self._end_program("--duration has elapsed", "use -x false to keep it running")
        elif settings.ends_when_counted and self._control.state is State.STOPPED:
            self._stop_recording(StoppedBy.LAUNCH_COUNT)
            self._end_program(
                "the launches of -c have been counted", "omit --kill to keep it running"
            )
        elif settings.windows_wanted and self._control.state is State.STOPPED:
            self._stop_recording(StoppedBy.CAPTURE_RANGE)
            if settings.ends_program:
                self._end_program(
                    "the capture range has ended",
                    "use --capture-range-end=stop to keep it running",
                )

    def _begin_recording(self) -> None:
        """Start recording after the delay."""
        self._is_recording = True
        if self._control.state is State.WAITING:
            with contextlib.suppress(OSError):  # a full disk: events are recorded or counted
                self._session.write_facts(recording_monotonic_ns=time.monotonic_ns())
            self._control.state = State.RECORDING

    def _stop_recording(self, why: StoppedBy) -> None:
        if not self._has_stopped and self._ended is None:
            self._ending.stopped_ns = time.monotonic_ns()
            self._ending.stopped_by = why
        self._has_stopped = True
        self._control.state = State.STOPPED
        with contextlib.suppress(OSError):  # a full disk: retried at the end
            self._session.write_facts(**self._ending.stop_facts())

    def _end_program(self, why: str, hint: str) -> None:
        if self._settings.kill is not None:
            name = signal_name(self._settings.kill)
            self._tell(f"{why}; stopping the program with {name} ({hint})")
            self._drain_asked_at = time.monotonic()
            self._control.ask_to_drain()
            self._end_drained_program()

    def _end_drained_program(self) -> None:
        """Stop the program once its GPU records are written, or after a timeout."""
        now = time.monotonic()
        alive = [pid for pid in self._control.holds_work() if processes.is_alive(pid)]
        if alive and self._drain_asked_at is not None and now - self._drain_asked_at < _DRAIN_S:
            return
        self._drain_asked_at = None
        if self._settings.kill is not None:
            self._ending.ended_by = self._settings.kill
            self._end_asked_at = now
            processes.send(os.getpid(), self._settings.kill)

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
            self._attached.reaped(pid, status)
            if pid == self._pid:
                self._ending.status = status
                self._ended = time.monotonic()

    def _has_children_to_wait_for(self) -> bool:
        children = {*processes.children(os.getpid())}
        return not children or not children <= self._own  # where /proc lists none, there are some

    def _descendants(self) -> list[int]:
        return processes.descendants(os.getpid(), without=self._own)

    def _look(self) -> None:
        """Do periodic work: inspect processes and ranges, draw the status line."""
        self._attached.look()
        alive = self._descendants()
        attached = self._control.attached_pids()
        self._ending.seen = max(self._ending.seen, len(alive))
        for pid in alive:
            looks = self._looks[pid] = self._looks.get(pid, 0) + 1
            if looks <= 2:  # between fork and exec, a process resembles its parent
                self._inspect(pid)
            if looks in _VERSION_LOOKS and pid in attached:
                with contextlib.suppress(OSError):  # a full disk: versions stay unknown
                    self._session.add_software(loaded_versions(pid))
        if self._control.mode is not RangeMode.NONE:
            self._close_windows_of_the_dead()
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
        if found is not None and found != str(self._session.folder):
            self._ending.unrecorded[pid] = processes.name_of(pid)

    def _close_windows_of_the_dead(self) -> None:
        for pid in self._control.holders():
            if not processes.is_alive(pid):
                self._control.release(pid)
        self._miscounts = 0 if self._control.is_counted_right() else self._miscounts + 1
        if self._miscounts > 1:
            self._control.recount()

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

    def _sampled(self) -> str:
        if self._control.state is State.TIME_WINDOW:
            return "recording a time window, no step yet"
        counters = self._control.counters()
        doing = "recording" if counters.windows_open else "paused"
        return f"{doing}, {counters.steps_begun:,} steps"

    def _line(self, alive: int) -> str:
        volume = measure(self._session.folder)
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        state = self._control.state
        is_open = self._control.mode is RangeMode.NONE or self._control.counters().windows_open
        if self._ended is not None:
            doing = "waiting for remaining processes"
        elif state is State.WAITING:
            doing = "waiting for --delay"
        elif state is State.STOPPED:
            doing = "recording has stopped"
        elif self._sampling is not None:
            doing = self._sampled()
        else:
            doing = "recording" if is_open else "waiting for the capture range"
        parts = [f"warpline: {doing}", f"{minutes}:{seconds:02}", f"{volume.events:,} events"]
        parts += [format_bytes(volume.bytes), f"{alive} process{'es' if alive != 1 else ''}"]
        if volume.dropped:
            parts.append(f"{volume.dropped:,} dropped")
        return "  ".join(parts)
