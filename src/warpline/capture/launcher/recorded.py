"""A session while it records: its time limits and its processes.

``warpline profile`` has one from the start to the end of the program, ``warpline launch`` has one
from each start to the next stop.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher import kept, on_finish
from warpline.capture.launcher.attached import Attached
from warpline.capture.launcher.keeper import Keeper
from warpline.capture.launcher.size_limit import disk_bytes, size_limit
from warpline.capture.launcher.time_windows import TimeSampling
from warpline.capture.machine import processes
from warpline.capture.machine.loaded import loaded_versions
from warpline.capture.session.control import Counters, RangeMode, State
from warpline.capture.session.facts import StoppedBy
from warpline.capture.session.session import Session, measure
from warpline.errors import WarplineError
from warpline.units import format_bytes

# Frameworks are loaded in the first seconds, a few of them later. Reading what a process has mapped
# holds up its own changes of that for a moment, so this is done rarely.
_VERSION_LOOKS = frozenset(2**power for power in range(1, 9))
_POLL_S = 0.05
_SIZE_POLL_S = 0.25
_SIZE_REST = 50  # thousands of threads have many files: use at most 1/50 of a CPU


class Recorded:
    """A session that records a program, from its start to its stop.

    Args:
        pid: The program.
        session: The session.
        settings: The settings of the recording.
        processes_known: How many processes are recorded for sure.
        say: Prints a note for the user.

    Attributes:
        session, settings: As given.
        has_stopped: Whether recording has stopped.
        stopped_ns: When it stopped, in monotonic ns, if that was before the program's end.
        stopped_by: The reason.
        keeper: Removes what is old; None if everything is kept.
    """

    def __init__(
        self,
        pid: int,
        session: Session,
        settings: CaptureSettings,
        say: Callable[[str], None] = lambda _: None,
        *,
        processes_known: int = 1,
    ) -> None:
        self._say = say
        self.session = session
        self.control = session.control
        self.attached = Attached(session.folder, session.control, pid)
        self.has_stopped = False
        self.stopped_ns: int | None = None
        self.stopped_by: StoppedBy | None = None
        self.settings = settings
        self._began = time.monotonic()
        sampling = settings.sampling
        # Counters are those of whole steps, or of steps as passes, so no time windows are counted.
        self._sampling = (
            TimeSampling(
                self.control,
                sampling,
                is_steps_only=settings.counters is not None,
                processes=processes_known,
            )
            if sampling
            else None
        )
        keep = settings.kept
        self.keeper = None
        if keep is not None:
            self.keeper = Keeper(
                session.folder, session.control, keep, settings.triggers, self._write_kept
            )
        self._limit = size_limit(settings, os.environ)
        self._size_at = self._began
        if self._limit is not None and self._limit.is_told:
            say(self._limit.announcement)
        self._is_recording = self.control.state is State.RECORDING
        self._looks: dict[int, int] = {}
        self._miscounts = 0

    def next_times(self) -> list[float]:
        """Return the monotonic times, in seconds, at which something is due."""
        now = time.monotonic()
        settings = self.settings
        if settings.windows_wanted and not self.has_stopped:
            return [now + _POLL_S]
        times = [] if self.keeper is None or self.has_stopped else [self.keeper.next()]
        if self._sampling is not None and self._is_recording:
            times.append(now + self._sampling.next())
        if self._limit is not None and not self.has_stopped:
            times.append(self._size_at)
        if not self._is_recording:
            times.append(self._began + settings.delay)
        if settings.duration is not None and not self.has_stopped:
            times.append(self._began + settings.delay + settings.duration)
        return times

    def keep_time(self, *, is_over: bool) -> StoppedBy | None:
        """Start or stop recording if it is time for it. Return why it was stopped now, or None.

        Args:
            is_over: Whether the program has ended.
        """
        passed = time.monotonic() - self._began
        settings = self.settings
        if not self._is_recording and passed >= settings.delay:
            self._begin()
        if self._sampling is not None and self._is_recording:
            self._sampling.look()
        if self.has_stopped:
            return None
        if self.keeper is not None and not is_over:
            self.keeper.look()
        why = None
        is_at_end = self.control.state is State.STOPPED
        if settings.duration is not None and passed >= settings.delay + settings.duration:
            why = StoppedBy.DURATION
        elif settings.ends_when_counted and is_at_end:
            why = StoppedBy.LAUNCH_COUNT
        elif settings.windows_wanted and is_at_end:
            why = StoppedBy.CAPTURE_RANGE
        elif self._sampling is not None and self._sampling.is_over():
            why = StoppedBy.STEPS
        elif not is_over and self._is_full():
            why = StoppedBy.SIZE
        if why is not None:
            self.stop(why, is_over=is_over)
        return why

    def _is_full(self) -> bool:
        """Return whether the events take as much as they may, and report it."""
        began = time.monotonic()
        if self._limit is None or began < self._size_at:
            return False
        size = disk_bytes(self.session.folder)
        took = time.monotonic() - began
        self._size_at = began + max(_SIZE_POLL_S, took * _SIZE_REST)
        if size < self._limit.bytes:
            return False
        self._say(self._limit.note)
        with contextlib.suppress(OSError):  # a full disk: it was said
            self.session.write_facts(notes=[*self.session.facts["notes"], self._limit.note])
        return True

    def stop(self, why: StoppedBy, *, is_over: bool) -> None:
        """Stop recording.

        Args:
            why: The reason.
            is_over: Whether the program has ended.
        """
        if not self.has_stopped and not is_over:
            self.stopped_ns = time.monotonic_ns()
            self.stopped_by = why
        self.has_stopped = True
        self.control.state = State.STOPPED
        with contextlib.suppress(OSError):  # a full disk: retried at the end
            self.session.write_facts(**self.stop_facts())

    def stop_facts(self) -> dict[str, Any]:
        """Return the facts about the stop of recording for session.json."""
        if self.stopped_ns is None:
            return {}
        return {"stopped_monotonic_ns": self.stopped_ns, "stopped_by": self.stopped_by}

    @property
    def is_without_steps(self) -> bool:
        """Whether only steps are to be recorded, and none has begun."""
        is_wanted = self._sampling is not None and self._sampling.is_steps_only
        return is_wanted and not self.control.counters().step_processes

    def look(self, alive: Collection[int]) -> None:
        """Do periodic work: note new processes, their versions, and ranges of dead ones.

        Args:
            alive: The program's processes.
        """
        self.attached.look()
        attached = self.control.attached_pids()
        for pid in alive:
            looks = self._looks[pid] = self._looks.get(pid, 0) + 1
            if looks in _VERSION_LOOKS and pid in attached:
                with contextlib.suppress(OSError):  # a full disk: versions stay unknown
                    self.session.add_software(loaded_versions(pid))
        if self.control.mode is not RangeMode.NONE:
            self._close_windows_of_the_dead()

    def close(self) -> dict[str, Any]:
        """Take a last look at the processes. Return the facts about which times are recorded."""
        self.attached.close()
        facts = {}
        if self._sampling is not None:
            self._sampling.end()
            facts = self._sampling.facts()
        if self.keeper is not None:
            facts |= self.keeper.end(self.stopped_ns)
        return facts

    def doing(self) -> str:
        """Return what the session does, for a line of status."""
        state = self.control.state
        if state is State.WAITING:
            return "waiting for --delay"
        if state is State.STOPPED:
            return "recording has stopped"
        counters = self.control.counters()
        if self.settings.keep_last:
            return f"keeping the last {self.settings.keep_last}"
        if self._sampling is not None:
            return _doing_steps(state, counters)
        is_open = self.control.mode is RangeMode.NONE or counters.windows_open
        return "recording" if is_open else "waiting for the capture range"

    def volume(self) -> tuple[str, str, str]:
        """Return the number of events, their size and those dropped, in words; "" for none."""
        volume = measure(self.session.folder)
        dropped = f"{volume.dropped:,} dropped" if volume.dropped else ""
        return f"{volume.events:,} events", format_bytes(volume.bytes), dropped

    def _write_kept(self, ended_ns: int, reason: str) -> None:
        """Write what is kept, in a thread of its own, because a condition holds."""
        keeper, whole = self.keeper, Path(self.session.facts["output"])
        assert keeper is not None  # it calls this
        from_ns = keeper.kept_from_ns(ended_ns)
        keeper.hold(is_wanted=True)
        try:
            place = kept.reserve(kept.name_of(whole), overwrite=False, warn=self._say)
            kept.copy(self.session.folder, place, self.settings.cuda_flush_interval)
            keeper.hold(is_wanted=False)
            kept.settle(place, from_ns, ended_ns)
            kept.write(place, lambda _: None)
        except (WarplineError, OSError) as error:
            self._say(f"{reason}; what was kept of it could not be written: {error}")
        else:
            self._say(f"{reason}: wrote {place.output.name}")
            on_finish.run(self.settings.on_finish, place.output, self._say)
        finally:
            keeper.hold(is_wanted=False)

    def _begin(self) -> None:
        """Start recording after the delay."""
        self._is_recording = True
        if self.control.state is State.WAITING:
            with contextlib.suppress(OSError):  # a full disk: events are recorded or counted
                self.session.write_facts(recording_monotonic_ns=time.monotonic_ns())
            self.control.state = State.RECORDING

    def _close_windows_of_the_dead(self) -> None:
        for pid in self.control.holders():
            if not processes.is_alive(pid):
                self.control.release(pid)
        self._miscounts = 0 if self.control.is_counted_right() else self._miscounts + 1
        if self._miscounts > 1:
            self.control.recount()


def _doing_steps(state: State, counters: Counters) -> str:
    """Return what a session does that samples steps."""
    if state is State.TIME_WINDOW:
        return "recording a time window, no step yet"
    if not counters.step_processes:
        return "waiting for the first step"
    what = "recording" if counters.windows_open else "paused"
    return f"{what}, {counters.steps_begun:,} steps"
