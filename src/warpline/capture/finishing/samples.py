"""The recorded parts of a run, from the notes of agents and launcher.

Parts are samples of steps, or capture ranges. Capture ranges need no sentence: the user chose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.session.control import Counters
from warpline.capture.session.raw_numbers import Note
from warpline.capture.session.sampling import WINDOW_S, Sampling
from warpline.units import format_ns, plural

_MOST_TOLD = 3  # patterns to list individually

Window = tuple[int, int]


@dataclass(frozen=True)
class Pattern:
    """A repeating sequence of launches in a process, one repetition per step.

    Attributes:
        period_ns: The duration of a repetition when it was detected.
        launches: Launches per repetition, over all threads.
        is_timed: Whether pauses were timed by the clock because counting steps has high overhead.
    """

    period_ns: int
    launches: int
    is_timed: bool

    @classmethod
    def of(cls, text: str) -> Pattern | None:
        """Parse a note; None if it is invalid."""
        words = text.split()
        if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
            return None
        period_ns, launches, is_timed = map(int, words)
        return cls(period_ns, launches, bool(is_timed)) if period_ns else None


@dataclass(frozen=True)
class Samples:
    """The recorded parts of a run.

    Attributes:
        windows: Starts and ends in ns from the origin: the union over processes, ascending.
        sentence: A description for the user; None if nothing or capture ranges were recorded.
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
    lived_until_ns: Sequence[int | None] = (),
) -> Samples | None:
    """Return the samples or capture ranges of a session, or None if all of it was recorded.

    Args:
        session: The decoded logs, sealed.
        facts: The content of session.json.
        counters: The agents' counters, if known.
        origin_ns: The monotonic time that is 0 in the recording.
        span_ns: When recording started and stopped, from the origin.
        lived_until_ns: When each process was last known to be running, monotonic.
    """
    if "kept_from_monotonic_ns" in facts:
        return None  # of what was kept, all was recorded
    options = facts.get("options")
    sampling = _sampling(options if isinstance(options, dict) else {})
    noted, count = _noted(session, lived_until_ns)
    by_time = _by_time(facts)
    if sampling is None and not noted:
        return None
    low, high = span_ns
    windows = _union(
        (max(start - origin_ns, low), min(end - origin_ns, high))
        for start, end in (*noted, *by_time)
    )
    if sampling is None and not count:
        return Samples(windows, None)
    sentences = []
    if count:
        patterns = _patterns(session)
        sentences.append(_steps_told(sampling, counters, count, patterns))
        if patterns:
            sentences.append(_patterns_told(patterns))
    if by_time:
        sentences.append(_time_told(sampling, len(by_time), has_steps=bool(count)))
    recorded = sum(end - start for start, end in windows)
    sentences.append(f"in all {format_ns(recorded)} of {format_ns(high - low)}")
    return Samples(windows, "; ".join(sentences) if windows else None)


def _time_told(sampling: Sampling | None, windows: int, *, has_steps: bool) -> str:
    period = WINDOW_S / sampling.duty if sampling is not None else 0
    # The first step ends an open window early.
    told = f"{plural(windows, 'time window')} of {'up to ' if has_steps else ''}{WINDOW_S:g} s"
    told += f", one every {period:.3g} s,"
    hint = "(use --step-range to name the NVTX range that starts a step)"
    verb = "was" if windows == 1 else "were"
    if has_steps:
        return f"before step boundaries were found, {told} {verb} recorded {hint}"
    return f"no step boundaries were found; {told} {verb} recorded instead {hint}"


def _patterns(session: RawSession) -> list[Pattern]:
    """Return the patterns of the process with the most, in the order found."""
    found: dict[int, list[Pattern]] = {}
    names = ("time_ns", "kind", "text_id", "process_id")
    for _, kind, text, process in sorted(
        zip(*(session.facts("note", name) for name in names), strict=True)
    ):
        pattern = Pattern.of(session.text(text)) if kind == Note.STEPS_BY_LAUNCH else None
        if pattern is not None:
            found.setdefault(process, []).append(pattern)
    return max(found.values(), key=len, default=[])


def _patterns_told(patterns: list[Pattern]) -> str:
    shown = [
        f"period {format_ns(one.period_ns)}, {plural(one.launches, 'launch', 'launches')}"
        for one in patterns[:_MOST_TOLD]
    ]
    if len(patterns) > _MOST_TOLD:
        shown.append(f"{len(patterns) - _MOST_TOLD:,} more")
    timed = "; pauses were timed by the clock" if any(one.is_timed for one in patterns) else ""
    return f"steps detected from periodic launches ({', then '.join(shown)}{timed})"


def _steps_told(
    sampling: Sampling | None,
    counters: Counters | None,
    windows: int,
    patterns: list[Pattern],
) -> str:
    steps, every = (sampling.steps, sampling.every) if sampling is not None else (0, 0)
    if not every and counters is not None:
        steps, every = counters.plan
    which = f"{steps:,} of every {every:,} steps" if every else "some steps"
    begun = counters.steps_begun if counters is not None else 0
    processes = counters.step_processes if counters is not None else 0
    if sampling is not None and sampling.is_once:
        each = f" in each of {processes:,} processes" if processes > 1 else ""
        return f"{plural(steps, 'step')} {'was' if steps == 1 else 'were'} recorded{each}"
    run = f" in a run of {plural(begun, 'step')}" if begun else ""
    if begun and patterns:  # earlier steps are unknown
        about = "about " if any(one.is_timed for one in patterns) else ""
        run = f" in the {about}{plural(begun, 'step')} after steps were first detected"
    run += f" of {processes:,} processes" if processes > 1 else ""
    verb = "was" if steps == 1 else "were"
    return f"{which} {verb} recorded: {plural(windows, 'window')}{run}"


def _sampling(options: Mapping[str, Any]) -> Sampling | None:
    """Return the requested sampling, from the options in session.json."""
    steps, every, duty = (options.get(name) for name in ("steps", "every", "duty"))
    if not any((steps, every, duty)):
        return None
    try:
        return Sampling.of(steps, every, duty, step_range=None, by_calls=False)
    except (TypeError, ValueError, ArithmeticError):
        return None  # a damaged file: the recorded windows are known without it


def _noted(session: RawSession, lived_until_ns: Sequence[int | None]) -> tuple[list[Window], int]:
    """Return the windows in the processes' notes, and how many of them are samples of steps."""
    names = ("time_ns", "kind", "process_id", "text_id")
    ends = session.facts("process", "last_ns")
    for process, until_ns in enumerate(lived_until_ns):
        ends[process] = max(ends[process], until_ns or 0)
    opened: dict[int, int] = {}
    windows: list[Window] = []
    samples = 0
    for time_ns, kind, process, text in sorted(
        zip(*(session.facts("note", name) for name in names), strict=True)
    ):
        if kind == Note.SAMPLE_BEGIN:
            opened.setdefault(process, time_ns)
            samples += bool(session.text(text))  # the step's number
        elif kind == Note.SAMPLE_END and process in opened:
            windows.append((opened.pop(process), time_ns))
    windows += [(start, max(start, ends[process])) for process, start in opened.items()]
    return windows, samples


def _by_time(facts: Mapping[str, Any]) -> list[Window]:
    found = facts.get("time_windows")
    pairs: Sequence[Any] = found if isinstance(found, list) else ()
    return [
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and all(type(time) is int for time in pair)
    ]


def _union(windows: Iterable[Window]) -> tuple[Window, ...]:
    """Merge windows that touch or overlap; drop empty ones."""
    found: list[list[int]] = []
    for start, end in sorted(windows):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return tuple((start, end) for start, end in found)
