"""Repeats measurements in turns: until they are steady, and until they are precise."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence

from warpline.torch.timing.medians import Median, median
from warpline.torch.timing.stopwatches import Now, Sample, Stopwatch

_GROUP = 5  # successive samples whose medians are compared
_STEADY = 0.02
_LEAST_WARM_NS = 50_000_000  # clocks of a GPU rise when it has work
_LEAST_ROUNDS = 20
_LEAST_NS = 100_000_000  # of all rounds
_FEWEST_ROUNDS = 5  # when the time is up
MOST_ROUNDS = 10_000
_GROWTH = 1.2  # from one look at the precision to the next


def warm_up(stopwatch: Stopwatch, budget_ns: float, now_ns: Now) -> bool:
    """Repeat a function until its time is steady; return whether that was reached.

    It is when the medians of two successive groups of five calls differ by less than 2%, after at
    least 50 ms.

    Args:
        stopwatch: Of the function.
        budget_ns: When to give up.
        now_ns: The clock.
    """
    begin = now_ns()
    before: float | None = None
    while True:
        present = median([stopwatch.sample().time_ns for _ in range(_GROUP)]).value
        took_ns = now_ns() - begin
        is_steady = before is not None and abs(present - before) <= _STEADY * before
        if is_steady and took_ns >= _LEAST_WARM_NS:
            return True
        if took_ns >= max(budget_ns, _LEAST_WARM_NS):
            return is_steady
        before = present


def repeat(
    stopwatches: Sequence[Stopwatch],
    precision: float,
    budget_ns: float,
    now_ns: Now,
    look: Callable[[], None],
) -> list[list[Sample]]:
    """Time functions in turns, each once per round, until all medians are precise.

    Every other round runs in reverse, so that none is always after the same other one.

    Args:
        stopwatches: Of the functions.
        precision: Wanted half width of the intervals of medians, and of ratios to the first
            function, as a share.
        budget_ns: When to stop in any case, after five rounds.
        now_ns: The clock.
        look: Called at the beginning, at some rounds and at the end, between measurements.

    Returns:
        The samples of each function, as many of each.
    """
    samples: list[list[Sample]] = [[] for _ in stopwatches]
    places = range(len(stopwatches))
    begin = now_ns()
    next_look = _LEAST_ROUNDS
    look()
    for rounds in range(1, MOST_ROUNDS + 1):
        for place in places if rounds % 2 else reversed(places):
            samples[place].append(stopwatches[place].sample())
        took_ns = now_ns() - begin
        if took_ns >= budget_ns and rounds >= _FEWEST_ROUNDS:
            break
        if rounds >= next_look:
            look()
            if took_ns >= _LEAST_NS and is_precise(samples, precision):
                break
            next_look = int(rounds * _GROWTH) + 1
    look()
    return samples


def is_precise(samples: Sequence[Sequence[Sample]], precision: float) -> bool:
    """Return whether the medians, and those of ratios, are as precise as wanted."""
    times = [median([sample.time_ns for sample in part]) for part in samples]
    ratios = [ratio(part, samples[0]) for part in samples[1:]]
    return all(item is None or item.precision <= precision for item in (*times, *ratios))


def ratio(samples: Sequence[Sample], base: Sequence[Sample]) -> Median | None:
    """Return the median ratio of times of the same round; None if the base takes no time."""
    pairs = zip(samples, base, strict=True)
    ratios = [own.time_ns / other.time_ns for own, other in pairs if other.time_ns]
    return median(ratios) if ratios else None


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off for a while, as `timeit` does: it would hit any call."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
