"""Looks at a recording in progress once per second: how busy GPUs are, steps, causes of idle time.

A look must cost next to nothing. How busy GPUs are comes from the last seconds, and is new each
time. Causes and steps come from the whole window, whose events take longer than a hundredth of a
second where there are many: they are as new as that allows, and say of which time they are. Where
causes would be older than `_OLD_S`, they are those of the newest second, and so are steps if it has
some.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from warpline.capture.finishing.raw_session import is_recording
from warpline.capture.session.control import CONTROL_BYTES, FILE_NAME, ControlPage, State
from warpline.capture.session.facts import time_of
from warpline.live.finding import Found
from warpline.live.follow import DeviceKey, Following
from warpline.live.measure import (
    GpuActivity,
    RankSteps,
    RankTime,
    gpus_of,
    is_settled,
    rank_steps,
    rank_times,
)
from warpline.live.window import Seen, Windows, kept_s
from warpline.trace import Trace

SECOND_NS = 1_000_000_000
_MARGIN_NS = 300_000_000  # records that CUPTI returns are decoded meanwhile
_FLUSH_MS = 1000  # how often CUPTI is asked for its records, unless the user said otherwise
_EARLIER_S = 2.0  # launches come before their work
SHARE = 0.01  # of a CPU, for all of it
_LEAST_SHARE = 0.003  # for what the window takes
_OF_CAUSES, _OF_STEPS = 0.6, 0.4  # of that
_EARLY_S = 0.2
_OLD_S = 10.0
_MANY_STEPS = 5  # of a rank in a second, so that no longer window is needed
_WEIGHT = 0.2  # of a look, in the mean of what is spent
_LATE_NS = SECOND_NS // 4  # a look may be
_NEWEST, _WINDOW = 0, 1  # lengths of time that are kept


@dataclass(frozen=True)
class Second:
    """The newest second of which all is known, as a rule.

    Attributes:
        start_ns: Its begin, ns from the origin of the recording.
        end_ns: Its end.
        is_settled: Whether all work of it is known.
        gpus: How busy each GPU was.
    """

    start_ns: int
    end_ns: int
    is_settled: bool
    gpus: tuple[GpuActivity, ...]


@dataclass(frozen=True)
class Times:
    """Where the time of GPUs went.

    Attributes:
        start_ns: The begin of the window, ns from the origin of the recording.
        end_ns: Its end.
        is_settled: Whether later records cannot change it.
        ranks: Each process on each GPU.
    """

    start_ns: int
    end_ns: int
    is_settled: bool
    ranks: tuple[RankTime, ...]


@dataclass(frozen=True)
class StepTimes:
    """The steps of a window; attributes are those of `Times`."""

    start_ns: int
    end_ns: int
    is_settled: bool
    ranks: tuple[RankSteps, ...]


@dataclass(frozen=True)
class Update:
    """What is shown at a moment.

    Attributes:
        name: The name of the session, or of the recording.
        now_ns: The moment, ns from the origin of the recording.
        is_recording: Whether recording goes on.
        second: The newest second; None while there is none.
        times: The newest window with causes; None while there is none.
        steps: The newest window with steps; None while there is none.
        lost: Events that were dropped since recording began.
        damaged_logs: Logs that cannot be read to their end: their events are missing.
    """

    name: str
    now_ns: int = 0
    is_recording: bool = True
    second: Second | None = None
    times: Times | None = None
    steps: StepTimes | None = None
    lost: int = 0
    damaged_logs: int = 0


class _Pace:
    """When something is due that takes time, so that it takes a share of a CPU at most.

    Attributes:
        period_s: From the last time to the next.
    """

    def __init__(self) -> None:
        self._due = 0.0
        self.period_s = 0.0
        self._is_warm = False  # at first, modules and rules are loaded

    def is_due(self, now: float) -> bool:
        """Return whether it is; updates are not on the dot."""
        return now >= self._due - _EARLY_S

    def hurry(self) -> None:
        """Let it be due at once: what it took says nothing of what it will."""
        self._due = 0.0

    def took(self, began: float, cost_s: float, share: float) -> None:
        """Note what it took."""
        if self._is_warm:
            self.period_s = cost_s / share
            self._due = began + self.period_s
        self._is_warm = True


class Watcher:
    """Makes the updates of a recording in progress; call `update` once per second.

    Args:
        found: The recording.
        window_s: The length of the window.
        share: Of a CPU, for all of it.
        clock: The monotonic clock, in seconds.

    Attributes:
        last: The last update.

    Raises:
        CaptureError: The native core is missing.
    """

    def __init__(
        self,
        found: Found,
        window_s: float,
        *,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._found, self._share, self._clock = found, share, clock
        self.lag_ns = _MARGIN_NS + _flush_ms(found) * 1_000_000
        lag_s = self.lag_ns / SECOND_NS
        self._window_ns = round(window_s * SECOND_NS)
        self._origin_ns, self._damaged = time_of(found.facts, "started_monotonic_ns") or 0, 0
        newest_s = 1.0 + lag_s + 2 * _LATE_NS / SECOND_NS
        lengths_s = (newest_s, window_s + lag_s + _EARLIER_S)  # of _NEWEST and _WINDOW
        kept = kept_s(found.facts)
        self._following = Following(found.folder, newest_s, lengths_s, others_keep_s=kept)
        self._windows = Windows(self._following, found.folder, found.facts)
        self._end_ns = -SECOND_NS  # of the newest second
        self._gpus: tuple[GpuActivity, ...] = ()  # at rest
        self._rows: dict[DeviceKey, int] = {}
        self._devices = 0  # when these were last looked up
        self._of_windows_s = 0.0  # CPU time since the last look
        self._of_causes, self._of_steps = _Pace(), _Pace()
        self._is_dense = False  # too many events for the causes of the window
        self._has_short_steps = False  # then, the newest second has some
        # What all else takes, of a CPU: the newest second, and whoever shows it.
        self._others, self._cpu_s, self._at = 0.0, time.process_time(), clock()
        self.last = Update(found.name)

    def close(self) -> None:
        """Free the memory."""
        self._following.close()

    def update(self, look: Callable[[Trace, Times], None] | None = None) -> Update:
        """Return what is there now; when recording has ended, what was there last.

        Args:
            look: Called with a window and its times, where these are new.
        """
        if not self._goes_on():
            return replace(self.last, is_recording=False)
        began = self._clock()
        self._account(began)
        state = self._following.read()
        second = self._second()
        times, steps = self.last.times, self.last.steps
        if second is not None and self._is_dense and self._of_causes.is_due(began):
            times, steps = self._newest_parts(began, second, steps)
        if second is not None and self._is_window_due(began):
            times, steps = self._survey(began, second.end_ns, (times, steps), look)
        self.last = Update(
            self._found.name,
            state.now_ns - self._origin_ns,
            second=second,
            times=times,
            steps=steps,
            lost=state.lost,
            damaged_logs=max(state.damaged_logs, self._damaged),
        )
        return self.last

    def _second(self) -> Second | None:
        state = self._following.state
        newest = state.now_ns - self._origin_ns - self.lag_ns
        is_next = abs(newest - self._end_ns - SECOND_NS) < _LATE_NS
        end_ns = self._end_ns + SECOND_NS if is_next else newest
        start_ns = end_ns - SECOND_NS
        if start_ns < max(self._following.work_known_from_ns - self._origin_ns, 0):
            return None  # recording has just begun
        self._end_ns = end_ns
        if state.devices != self._devices:
            with self._windows.look(_NEWEST) as seen:
                self._learn(seen)
            self._devices = state.devices
        missing = state.missing_from_ns
        return Second(
            start_ns=start_ns,
            end_ns=end_ns,
            is_settled=missing is None or missing - self._origin_ns >= end_ns,
            gpus=self._activity(start_ns, end_ns),
        )

    def _activity(self, start_ns: int, end_ns: int) -> tuple[GpuActivity, ...]:
        """Return how busy each GPU was."""
        count = len(self._gpus)
        rows = [
            self._rows.get(key, count) for key in self._following.devices()
        ]  # of one that is gone
        origin_ns = self._origin_ns
        found = self._following.measure(start_ns + origin_ns, end_ns + origin_ns, rows, count + 1)
        return tuple(
            GpuActivity(gpu.gpu_index, gpu.name, busy_ns, operations)
            for gpu, (busy_ns, operations) in zip(self._gpus, found, strict=False)
        )

    def _learn(self, seen: Seen) -> None:
        """Note which GPUs there are, and which of them processes mean by their numbers."""
        self._gpus, self._rows = gpus_of(seen.trace), dict(seen.device_rows)
        self._damaged = seen.damaged_logs

    def _newest_parts(
        self, began: float, second: Second, steps: StepTimes | None
    ) -> tuple[Times, StepTimes | None]:
        """Return where the time of the newest second went, and its steps if it has several."""
        first_cpu = time.thread_time()
        with self._windows.look(_NEWEST) as seen:
            self._learn(seen)
            times = _times_of(seen, second.start_ns, second.end_ns)
            found = _steps_of(seen, second.start_ns, second.end_ns)
        self._has_short_steps = bool(found.ranks) and all(
            rank.steps.count >= _MANY_STEPS for rank in found.ranks
        )
        cost_s = time.thread_time() - first_cpu
        of_causes = 1.0 if self._has_short_steps else _OF_CAUSES
        self._of_causes.took(began, cost_s, self._share_of_windows() * of_causes)
        self._of_windows_s += cost_s
        return times, found if self._has_short_steps else steps

    def _is_window_due(self, now: float) -> bool:
        if not self._is_dense:
            return self._of_causes.is_due(now)
        return not self._has_short_steps and self._of_steps.is_due(now)

    def _survey(
        self,
        began: float,
        end_ns: int,
        before: tuple[Times | None, StepTimes | None],
        look: Callable[[Trace, Times], None] | None,
    ) -> tuple[Times | None, StepTimes | None]:
        """Return causes and steps of the window, those that are due, and others as before."""
        first_cpu, (times, steps) = time.thread_time(), before
        # Where causes are not those of the window, it is read for the steps only.
        was_dense, steps_cpu = self._is_dense, first_cpu
        with self._windows.look(_WINDOW) as seen:
            self._learn(seen)
            start_ns = max(end_ns - self._window_ns, seen.known_from_ns)
            if start_ns < end_ns and not was_dense:
                times = _times_of(seen, start_ns, end_ns, look)
                steps_cpu = time.thread_time()
                share = self._share_of_windows() * _OF_CAUSES
                self._of_causes.took(began, steps_cpu - first_cpu, share)
                self._is_dense = look is None and self._of_causes.period_s > _OLD_S
                if self._is_dense:
                    self._of_causes.hurry()  # those of a second take less
            is_wanted = was_dense or not self._is_dense
            if start_ns < end_ns and is_wanted and self._of_steps.is_due(began):
                steps = _steps_of(seen, start_ns, end_ns)
                cost_s = time.thread_time() - steps_cpu
                self._of_steps.took(began, cost_s, self._share_of_windows() * _OF_STEPS)
        self._of_windows_s += time.thread_time() - first_cpu
        return times, steps

    def _share_of_windows(self) -> float:
        return max(self._share - self._others, _LEAST_SHARE)

    def _account(self, now: float) -> None:
        """Note what was spent since the last look, beside what windows took."""
        cpu_s, elapsed = time.process_time(), now - self._at
        if elapsed > 0:
            spent = (cpu_s - self._cpu_s - self._of_windows_s) / elapsed
            self._others += (min(spent, self._share) - self._others) * _WEIGHT
        self._cpu_s, self._at, self._of_windows_s = cpu_s, now, 0.0

    def _goes_on(self) -> bool:
        try:
            page = (self._found.folder / FILE_NAME).read_bytes()
        except OSError:
            return False
        if len(page) != CONTROL_BYTES:
            return False
        state = ControlPage.from_buffer_copy(page).switch_word & 0xFF
        return state != State.STOPPED and is_recording(self._found.folder)


def _times_of(
    seen: Seen, start_ns: int, end_ns: int, look: Callable[[Trace, Times], None] | None = None
) -> Times:
    """Return where the time went between two times; `look` is called with that part."""
    part = seen.trace.window(start_ns, end_ns)
    settled = is_settled(part, end_ns, seen.missing_from_ns)
    times = Times(start_ns, end_ns, settled, rank_times(part))
    if look is not None:
        look(part, times)
    return times


def _steps_of(seen: Seen, start_ns: int, end_ns: int) -> StepTimes:
    part = seen.trace.window(start_ns, end_ns)
    settled = is_settled(part, end_ns, seen.missing_from_ns)
    return StepTimes(start_ns, end_ns, settled, rank_steps(part))


def _flush_ms(found: Found) -> int:
    options = found.facts.get("options")
    value = options.get("cuda_flush_interval") if isinstance(options, dict) else None
    return value if type(value) is int and 0 < value < 60_000 else _FLUSH_MS
