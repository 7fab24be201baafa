"""Samples of metrics in blocks of 16-bit codes, on the recording's clock."""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from warpline.capture.session.readings import IsRecording
from warpline.capture.session.sample_file import Block
from warpline.schema.counters import BLOCK_SAMPLES

_MOST_CODE = 0xFFFF
_LAGS = 64  # readings
_STEP_NS = 1_000_000  # a larger change of the wall clock between readings is not drift


def coded(metric: int, starts: Sequence[int], end_ns: int, values: Sequence[float]) -> list[Block]:
    """Return consecutive samples of a metric as blocks, without values that no counter has.

    Args:
        metric: Number of the metric.
        starts: Start of each sample, in ns.
        end_ns: End of the last one.
        values: One per sample. Those that are negative or not finite are left out.
    """
    if math.isfinite(sum(values)) and min(values) >= 0:
        return [_block(metric, starts[0], end_ns, values)]
    found = []
    first: int | None = None
    for place in range(len(values) + 1):
        is_good = place < len(values) and math.isfinite(values[place]) and values[place] >= 0
        if is_good and first is None:
            first = place
        elif not is_good and first is not None:
            end = starts[place] if place < len(values) else end_ns
            found.append(_block(metric, starts[first], end, values[first:place]))
            first = None
    return found


def _block(metric: int, start_ns: int, end_ns: int, values: Sequence[float]) -> Block:
    most = max(values)
    if most == min(values):
        return Block(metric, len(values), start_ns, end_ns, most, b"")
    scale = most / _MOST_CODE
    if scale < sys.float_info.min:
        return Block(metric, len(values), start_ns, end_ns, 0.0, b"")
    codes = array("H", [min(int(value / scale + 0.5), _MOST_CODE) for value in values])
    return Block(metric, len(values), start_ns, end_ns, scale, codes.tobytes())


class BlockMaker:
    """Collects samples, and passes blocks on when they are complete.

    A block has samples of about the same length without a gap. Blocks from the time when recording
    is off are left out, but for one before and one after.

    Args:
        metrics: Number of metrics.
        interval_ns: Length of a sample.
        longest_ns: How long samples may be kept before they are passed on.
        write: Takes the blocks of all metrics for the same samples.

    Attributes:
        samples: Samples so far.
        gaps: How often samples were missing.
        missing_ns: The time without samples, between the first and the last.
        bad_values: Values that were left out.
    """

    def __init__(
        self,
        metrics: int,
        interval_ns: float,
        longest_ns: int,
        write: Callable[[list[Block]], None],
    ) -> None:
        self._interval_ns = interval_ns
        self._longest_ns = longest_ns
        self._write = write
        self._starts = array("q")
        self._end_ns: int | None = None
        self._values = [array("d") for _ in range(metrics)]
        self._is_on = False
        self._was_on = False
        self._pending: list[Block] = []
        self.samples = 0
        self.gaps = 0
        self.missing_ns = 0
        self.bad_values = 0
        self.first_ns: int | None = None

    @property
    def last_ns(self) -> int | None:
        """End of the last sample."""
        return self._end_ns

    def add(
        self,
        starts: Sequence[int],
        ends: Sequence[int],
        values: Sequence[Sequence[float]],
        is_recording: IsRecording,
    ) -> None:
        """Add samples in order of time.

        Args:
            starts: When each sample begins, in ns.
            ends: When it ends.
            values: Per metric, one value per sample.
            is_recording: Whether recording is on.
        """
        is_on = is_recording is not IsRecording.NO
        first = 0
        for place, (start_ns, end_ns) in enumerate(zip(starts, ends, strict=True)):
            if self._end_ns is None:
                self.first_ns = start_ns
            elif start_ns < self._end_ns - self._interval_ns / 2:
                self._take(starts, values, first, place, is_on=is_on)
                first = place + 1  # this one was there before
                continue
            elif start_ns > self._end_ns + self._interval_ns / 2:
                self._take(starts, values, first, place, is_on=is_on)
                first = place
                self.gaps += 1
                self.missing_ns += start_ns - self._end_ns
                self.flush()
            self._end_ns = end_ns
            if len(self._starts) + place - first + 1 == BLOCK_SAMPLES:
                self._take(starts, values, first, place + 1, is_on=is_on)
                first = place + 1
                self.flush()
        self._take(starts, values, first, len(starts), is_on=is_on)
        if self._starts and (self._end_ns or 0) - self._starts[0] >= self._longest_ns:
            self.flush()

    def flush(self) -> None:
        """Pass on what was collected."""
        if not self._starts or self._end_ns is None:
            return
        blocks: list[Block] = []
        for first, last, end_ns in self._even_parts():
            starts = self._starts[first:last]
            for metric, values in enumerate(self._values):
                found = coded(metric, starts, end_ns, values[first:last])
                self.bad_values += last - first - sum(block.samples for block in found)
                blocks += found
        del self._starts[:]
        for values in self._values:
            del values[:]
        if self._is_on:
            self._write(self._pending + blocks)
            self._pending = []
        elif self._was_on:
            self._write(blocks)
        else:
            self._pending = blocks
        self._was_on, self._is_on = self._is_on, False

    def _take(
        self,
        starts: Sequence[int],
        values: Sequence[Sequence[float]],
        first: int,
        last: int,
        *,
        is_on: bool,
    ) -> None:
        if first == last:
            return
        self._is_on = self._is_on or is_on
        self.samples += last - first
        self._starts.extend(starts[first:last])
        for column, more in zip(self._values, values, strict=True):
            column.extend(more[first:last])

    def _even_parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield first, last and end of parts whose samples may be taken to be of equal length."""
        starts = self._starts
        rest = [(0, len(starts), self._end_ns or 0)]
        while rest:
            first, last, end_ns = rest.pop()
            step = (end_ns - starts[first]) / (last - first)
            far, at = max(
                (abs(starts[place] - starts[first] - (place - first) * step), place)
                for place in range(first, last)
            )
            if far <= self._interval_ns / 2:
                yield first, last, end_ns
            else:
                rest += [(at, last, end_ns), (first, at, starts[at])]


class SampleClock:
    """Converts the times of samples, on the wall clock, to the monotonic clock.

    Both clocks are read whenever samples are, so drift between them and slow corrections of the
    wall clock are followed. If it was set meanwhile, the times of samples may have followed or not:
    they have if they jump likewise.

    Args:
        now: Returns the monotonic and the wall clock at one time, in ns.

    Attributes:
        steps: How often the wall clock was set.
    """

    def __init__(self, now: Callable[[], tuple[int, int]] | None = None) -> None:
        self._now = now or _both_clocks
        monotonic_ns, wall_ns = self._now()
        self._offset_ns = monotonic_ns - wall_ns
        self._unfollowed_ns = 0
        self._end_ns: int | None = None
        self._first_lags: list[int] = []
        self._last_lags: deque[int] = deque(maxlen=_LAGS)
        self.steps = 0

    @property
    def lags_ns(self) -> tuple[int, int] | None:
        """The least time from the newest sample to its reading, at the beginning and the end.

        They differ if the clocks of GPU and CPU drift apart.
        """
        if not self._first_lags:
            return None
        return min(self._first_lags), min(self._last_lags)

    def convert(self, starts: Sequence[int], ends: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the monotonic times of samples that were just read; at least one."""
        monotonic_ns, wall_ns = self._now()
        offset_ns = monotonic_ns - wall_ns + self._unfollowed_ns
        set_by_ns = self._offset_ns - offset_ns
        if abs(set_by_ns) > _STEP_NS:
            self.steps += 1
            jump_ns = 0 if self._end_ns is None else starts[0] - self._end_ns
            if abs(jump_ns - set_by_ns) >= abs(jump_ns):
                self._unfollowed_ns += set_by_ns
                offset_ns += set_by_ns
        self._offset_ns, self._end_ns = offset_ns, ends[-1]
        lag_ns = monotonic_ns - ends[-1] - offset_ns
        self._last_lags.append(lag_ns)
        if len(self._first_lags) < _LAGS:
            self._first_lags.append(lag_ns)
        return [ns + offset_ns for ns in starts], [ns + offset_ns for ns in ends]


def _both_clocks() -> tuple[int, int]:
    """Return the monotonic and the wall clock at one time; the closest of a few readings."""
    best: tuple[int, int, int] | None = None
    for _ in range(3):
        before, wall_ns, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = after - before, (before + after) // 2, wall_ns
    assert best is not None
    return best[1], best[2]
