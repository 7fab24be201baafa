"""Watching a program while it runs: time limits, signals, capture ranges, processes left behind.

Signals are blocked and taken one by one with their sender, so there are no handlers and no races.
The rules:

- Ctrl-C: the recording stops. A second one kills everything.
- SIGTERM, SIGHUP, SIGQUIT: for the program; a second one kills everything.
- SIGUSR1, SIGUSR2: for the program.
- What is for the program is passed on if only we got it, not if it came from the terminal or to our
  whole process group.
- What was ignored when we began, as by nohup or for the background jobs of a script, means nothing
  to us; it is for the program, which may have a handler.
- SIGTSTP: the row of the status line is given back, then we stop as the program does.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpline.capture import processes
from warpline.capture.control import RangeMode, State
from warpline.capture.exits import Attached, signal_name
from warpline.capture.flags import Options
from warpline.capture.group import GroupEar
from warpline.capture.sampling import TimeSampling
from warpline.capture.session import SESSION_VARIABLE, Session, measure
from warpline.capture.status import StatusLine
from warpline.units import format_bytes

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_FORWARDED = {signal.SIGUSR1, signal.SIGUSR2}
_TAKEN = _PASSED_ON | _FORWARDED | {signal.SIGCHLD, signal.SIGTSTP}
_FROM_KERNEL = 0x80  # si_code of a signal that the terminal sends
_SAME_S = 0.3  # signals closer together than this are one: to the process, and to its group
_LOOK_S = 0.5
_REST = 50  # thousands of threads take long to look at: at most a fiftieth of a processor
_POLL_S = 0.05
_DRAW_AFTER_S = 1.0
_LEFT_BEHIND_S = 3.0
_PATIENCE_S = 1.0
_DRAIN_S = 5.0  # the device may be waiting for something that never comes
_NAMES_SHOWN = 3
_SIGSET_BYTES = 128  # of sigset_t in the C library

Say = Callable[[str], None]


@dataclass
class Ending:
    """How a watched program ended.

    Attributes:
        status: As waitpid gives it.
        interrupted: Whether Ctrl-C asked for the end.
        killed: Whether everything was killed, at a second signal.
        ended_by: The signal by which we ended the program, as its options ask; or None.
        stopped_ns: When the recording stopped, in monotonic ns, if the program was still running.
        stopped_by: What stopped it: "interrupt", "duration" or "capture range".
        left: Processes that were not waited for.
        seen: How many processes were seen at once, at most.
        unrecorded: Processes whose environment had lost the session: pid -> name.
        unloadable: Programs that no library can be loaded into: file -> why.
        sampled: What the session's facts are to say of sampling by time.
    """

    status: int = 0
    interrupted: bool = False
    killed: bool = False
    ended_by: int | None = None
    stopped_ns: int | None = None
    stopped_by: str | None = None
    left: list[int] = field(default_factory=list)
    seen: int = 0
    unrecorded: dict[int, str] = field(default_factory=dict)
    unloadable: dict[str, str] = field(default_factory=dict)
    sampled: dict[str, Any] = field(default_factory=dict)

    def stop_facts(self) -> dict[str, Any]:
        """Return what the session's facts are to say of the recording's stop."""
        if self.stopped_ns is None:
            return {}
        return {"stopped_monotonic_ns": self.stopped_ns, "stopped_by": self.stopped_by}


class Signals:
    """The signals that are taken while a program runs; blocked from the beginning."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else nothing could be waited for
        ignored = {number for number in _TAKEN if signal.getsignal(number) is signal.SIG_IGN}
        self._taken = _TAKEN - (ignored & {signal.SIGTSTP})
        self._ours = _PASSED_ON - ignored
        self.before: set[int] = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._taken))
        self._ear = GroupEar(self._taken & (_PASSED_ON | _FORWARDED))
        self._pending = _descriptor_of(self._taken)

    def take(self, seconds: float, wakers: Sequence[int] = ()) -> signal.struct_siginfo | None:
        """Return the next signal, or None when so many seconds have passed.

        Or when one of the descriptors `wakers` can be read, if the system can wait for both.
        """
        seconds = max(0.0, seconds)
        if self._pending is not None and wakers:
            poll = select.poll()
            for descriptor in (self._pending, *wakers):
                poll.register(descriptor, select.POLLIN)
            poll.poll(math.ceil(seconds * 1e3))
            seconds = 0.0
        return signal.sigtimedwait(self._taken, seconds)

    def was_for_all(self, number: int) -> bool:
        """Return whether a signal that was taken was sent to our whole process group."""
        return self._ear.has_heard(number)

    def is_ours(self, number: int) -> bool:
        """Return whether a signal asks us to end, and not the program alone."""
        return number in self._ours

    def give_back(self) -> None:
        """Forget what has come meanwhile, and block nothing any more."""
        self._ear.close()
        if self._pending is not None:
            os.close(self._pending)
            self._pending = None
        while self.take(0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def stop_here(self) -> None:
        """Stop as SIGTSTP asks, and return when the process is continued."""
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})  # here
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def _descriptor_of(signals: set[signal.Signals]) -> int | None:
    """Return a descriptor that can be read while one of the signals is pending, if the system can.

    Python offers sigtimedwait only, which waits for nothing but signals.
    """
    mask = sum(1 << (number - 1) for number in signals)
    with contextlib.suppress(OSError, AttributeError):
        words = (ctypes.c_uint64 * (_SIGSET_BYTES // 8))(mask)
        found: int = ctypes.CDLL(None).signalfd(-1, words, os.O_CLOEXEC | os.O_NONBLOCK)
        return found if found >= 0 else None
    return None


class Watch:
    """Watches a program that has been started until there is nothing more to wait for.

    Args:
        pid: The program.
        session: Where it is recorded.
        options: What was asked for.
        signals: Blocked before the program was started.
        say: Tells the user something.
    """

    def __init__(
        self, pid: int, session: Session, options: Options, signals: Signals, say: Say
    ) -> None:
        self._pid = pid
        self._session = session
        self._control = session.control
        self._attached = Attached(session.folder, session.control, pid)
        self._options = options
        self._signals = signals
        self._say = say
        self._status = StatusLine(2, is_wanted=not options.quiet)
        self._ending = Ending()
        self._began = time.monotonic()
        sampling = options.sampling
        self._sampling = TimeSampling(self._control, sampling) if sampling else None
        self._ended: float | None = None  # when the program did
        self._is_recording = self._control.state is State.RECORDING
        self._has_stopped = False
        self._asked_at: float | None = None  # when we were first asked to end
        self._children_left = True
        self._abandoned = False
        self._looks: dict[int, int] = {}
        self._look_at = self._began
        self._miscounts = 0
        self._drain_asked_at: float | None = None  # when it was to write its device work down
        self._end_asked_at: float | None = None  # when we asked the program to end
        self._told_left = False
        self._told_waiting = False

    def run(self) -> Ending:
        """Watch to the end."""
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
        self._ending.left = [
            pid for pid in processes.descendants(os.getpid()) if processes.is_alive(pid)
        ]
        return self._ending

    def _is_over(self) -> bool:
        if self._ended is None:
            return False
        return not self._children_left or self._abandoned or self._options.wait == "primary"

    def _next(self) -> float:
        """Return how long nothing will have to be done."""
        now = time.monotonic()
        if self._waits_for_windows() or self._drain_asked_at is not None:
            return _POLL_S
        times = [self._look_at]
        if self._sampling is not None and self._is_recording:
            times.append(now + self._sampling.next())
        if not self._is_recording:
            times.append(self._began + self._options.delay)
        if self._options.duration is not None and not self._has_stopped:
            times.append(self._began + self._options.delay + self._options.duration)
        return min(times) - now

    def _waits_for_windows(self) -> bool:
        return bool(self._options.windows_wanted) and not self._has_stopped

    # --- Signals ---------------------------------------------------------------------------------

    def _receive(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        if number == signal.SIGTSTP:
            self._status.clear()
            self._signals.stop_here()
        elif number in _PASSED_ON | _FORWARDED:
            has_it = self._signals.was_for_all(number) and self._is_in_our_group()
            has_it = has_it or received.si_code == _FROM_KERNEL
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
        if number == signal.SIGQUIT and has_it:
            return  # the program's own affair; ours is to finish
        if number == signal.SIGINT:
            self._ending.interrupted = True
            self._stop_recording("interrupt")
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
        self._stop_recording("interrupt")
        processes.send(os.getpid(), signal.SIGKILL)

    # --- Time ------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        passed = time.monotonic() - self._began
        options = self._options
        if not self._is_recording and passed >= options.delay:
            self._begin_recording()
        if self._drain_asked_at is not None:
            self._end_drained_program()
        if self._has_stopped:
            return
        if options.duration is not None and passed >= options.delay + options.duration:
            self._stop_recording("duration")
            if options.stop_on_exit:
                self._end_program("the time of -d has passed", "-x false lets it go on")
        elif options.windows_wanted and self._control.state is State.STOPPED:
            self._stop_recording("capture range")
            if options.ends_program:
                self._end_program(
                    "the capture range has ended", "--capture-range-end=stop lets it go on"
                )

    def _begin_recording(self) -> None:
        """Record from here: the delay has passed."""
        self._is_recording = True
        if self._control.state is State.WAITING:
            with contextlib.suppress(OSError):  # a full disk: what comes now is recorded or told
                self._session.write_facts(recording_monotonic_ns=time.monotonic_ns())
            self._control.state = State.RECORDING

    def _stop_recording(self, why: str) -> None:
        if not self._has_stopped and self._ended is None:
            self._ending.stopped_ns = time.monotonic_ns()
            self._ending.stopped_by = why
        self._has_stopped = True
        self._control.state = State.STOPPED
        with contextlib.suppress(OSError):  # a full disk: it is tried again at the end
            self._session.write_facts(**self._ending.stop_facts())

    def _end_program(self, why: str, hint: str) -> None:
        if self._options.kill is not None:
            name = signal_name(self._options.kill)
            self._tell(f"{why}: {name} ends the program; {hint}")
            self._drain_asked_at = time.monotonic()
            self._control.ask_to_drain()
            self._end_drained_program()

    def _end_drained_program(self) -> None:
        """End the program once its device work is written down, or that takes too long."""
        now = time.monotonic()
        alive = [pid for pid in self._control.holds_work() if processes.is_alive(pid)]
        if alive and self._drain_asked_at is not None and now - self._drain_asked_at < _DRAIN_S:
            return
        self._drain_asked_at = None
        if self._options.kill is not None:
            self._ending.ended_by = self._options.kill
            self._end_asked_at = now
            processes.send(os.getpid(), self._options.kill)

    # --- Processes -------------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._children_left = False
                return
            if pid == 0:
                return
            self._attached.reaped(pid, status)
            if pid == self._pid:
                self._ending.status = status
                self._ended = time.monotonic()

    def _look(self) -> None:
        """Do what need not be done at once: look at processes and ranges, draw the line."""
        self._attached.look()
        alive = processes.descendants(os.getpid())
        self._ending.seen = max(self._ending.seen, len(alive))
        for pid in alive:
            looks = self._looks.get(pid, 0)
            if looks < 2:  # between fork and exec a process looks like its parent
                self._looks[pid] = looks + 1
                self._inspect(pid)
        if self._control.mode is not RangeMode.NONE:
            self._close_windows_of_the_dead()
        now = time.monotonic()
        if self._ended is not None and now - self._ended > _LEFT_BEHIND_S:
            self._tell_left(alive)
        elif self._ending.interrupted and now - (self._asked_at or now) > _PATIENCE_S:
            self._tell_once("recording has stopped; waiting for the program, Ctrl-C kills it")
        elif self._end_asked_at is not None and now - self._end_asked_at > _LEFT_BEHIND_S:
            name = signal_name(self._ending.ended_by or 0)
            self._tell_once(
                f"the program goes on after {name}; Ctrl-C twice, or --kill=sigkill, ends it"
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
        if not self._options.quiet:
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
            f"the program has ended; waiting for {count} that it left ({shown}):"
            " Ctrl-C finishes now, --wait=primary does not wait"
        )

    def _sampled(self) -> str:
        if self._control.state is State.TIME_WINDOW:
            return "recording for a while, no step was seen yet"
        counters = self._control.counters()
        doing = "recording" if counters.windows_open else "resting"
        return f"{doing}, {counters.steps_begun:,} steps"

    def _line(self, alive: int) -> str:
        volume = measure(self._session.folder)
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        state = self._control.state
        is_open = self._control.mode is RangeMode.NONE or self._control.counters().windows_open
        if self._ended is not None:
            doing = "waiting for processes left behind"
        elif state is State.WAITING:
            doing = "waiting for the delay to pass"
        elif state is State.STOPPED:
            doing = "recording has stopped"
        elif self._sampling is not None:
            doing = self._sampled()
        else:
            doing = "recording" if is_open else "waiting for the capture range"
        parts = [f"warpline: {doing}", f"{minutes}:{seconds:02}", f"{volume.events:,} events"]
        parts += [format_bytes(volume.bytes), f"{alive} process{'es' if alive != 1 else ''}"]
        if volume.dropped:
            parts.append(f"{volume.dropped:,} lost")
        return "  ".join(parts)
