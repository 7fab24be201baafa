"""Which parts of a sampled run were recorded, by what the agents and the launcher noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpline.capture.control import Counters
from warpline.capture.raw_session import RawSession
from warpline.capture.sampling import WINDOW_S, Sampling
from warpline.units import format_ns, plural

_BEGIN, _END = 6, 7  # kSampleBegin and kSampleEnd of Note in native/raw/warpline_raw.h

Window = tuple[int, int]


@dataclass(frozen=True)
class Samples:
    """What was recorded of a sampled run.

    Attributes:
        windows: Beginnings and ends, from the origin: the union over processes, ascending.
        sentence: What its readers must know; None if nothing was recorded.
    """

    windows: tuple[Window, ...]
    sentence: str | None


def find_samples(
    session: RawSession,
    facts: Mapping[str, Any],
    counters: Counters | None,
    *,
    origin_ns: int,
    span_ns: Window,
) -> Samples | None:
    """Return the samples of a session, or None if all of it was recorded.

    Args:
        session: What the logs hold, sealed.
        facts: What session.json holds.
        counters: What the agents counted, if it is known.
        origin_ns: The monotonic time from which the recording counts.
        span_ns: When recording began and ended, from there.
    """
    options = facts.get("options")
    sampling = _sampling(options if isinstance(options, dict) else {})
    by_steps, count = _by_steps(session)
    by_time = _by_time(facts)
    if sampling is None and not by_steps:
        return None
    low, high = span_ns
    windows = _union(
        (max(start - origin_ns, low), min(end - origin_ns, high))
        for start, end in (*by_steps, *by_time)
    )
    sentences = []
    if count:
        sentences.append(_steps_told(sampling, counters, count))
    if by_time:
        period = WINDOW_S / sampling.duty if sampling is not None else 0
        sentences.append(
            f"{'until then ' if count else ''}no step boundaries were found, so that"
            f" {plural(len(by_time), 'time window')} of {WINDOW_S:g} s, one in {period:.3g} s,"
            " are what was recorded (--step-range names the NVTX range that begins a step)"
        )
    recorded = sum(end - start for start, end in windows)
    sentences.append(f"in all {format_ns(recorded)} of {format_ns(high - low)}")
    return Samples(windows, "; ".join(sentences) if windows else None)


def _steps_told(sampling: Sampling | None, counters: Counters | None, windows: int) -> str:
    steps, every = (sampling.steps, sampling.every) if sampling is not None else (0, 0)
    if not every and counters is not None:
        steps, every = counters.plan
    which = f"{steps:,} of every {every:,} steps" if every else "some steps"
    begun = counters.steps_begun if counters is not None else 0
    processes = counters.step_processes if counters is not None else 0
    run = f" in a run of {plural(begun, 'step')}" if begun else ""
    run += f" of {processes:,} processes" if processes > 1 else ""
    return f"{which} were recorded: {plural(windows, 'window')}{run}"


def _sampling(options: Mapping[str, Any]) -> Sampling | None:
    """Return what was asked for, by the options in session.json."""
    steps, every, duty = (options.get(name) for name in ("steps", "every", "duty"))
    if not any((steps, every, duty)):
        return None
    try:
        return Sampling.of(steps, every, duty, step_range=None, by_calls=False)
    except (TypeError, ValueError, ArithmeticError):
        return None  # a damaged file: what was recorded is known without it


def _by_steps(session: RawSession) -> tuple[list[Window], int]:
    """Return the windows that processes recorded by their steps, and how many there were."""
    names = ("time_ns", "kind", "process_id")
    ends = session.facts("process", "last_ns")
    opened: dict[int, int] = {}
    windows: list[Window] = []
    for time_ns, kind, process in sorted(
        zip(*(session.facts("note", name) for name in names), strict=True)
    ):
        if kind == _BEGIN:
            opened.setdefault(process, time_ns)
        elif kind == _END and process in opened:
            windows.append((opened.pop(process), time_ns))
    windows += [(start, max(start, ends[process])) for process, start in opened.items()]
    return windows, len(windows)


def _by_time(facts: Mapping[str, Any]) -> list[Window]:
    found = facts.get("time_windows")
    pairs: Sequence[Any] = found if isinstance(found, list) else ()
    return [
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and all(type(time) is int for time in pair)
    ]


def _union(windows: Iterable[Window]) -> tuple[Window, ...]:
    """Join windows that touch or overlap; those without length are left out."""
    found: list[list[int]] = []
    for start, end in sorted(windows):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return tuple((start, end) for start, end in found)
