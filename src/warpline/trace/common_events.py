"""The shift between the clocks of two traces of the same processes, by events that both have."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpline.injected.operators import CLOCK
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64
from warpline.ops.join import lookup_rows
from warpline.trace.trace import Trace
from warpline.units import format_ns

_VERSION = lazy_pattern(r"_(v[0-9]+|ptsz|ptds)\b")
_LEAST = 3  # common events
_LEAST_SHARE = 0.3  # of the events that might be common
_MOST_SAMPLED = 2000
_MOST_PAIRS = 2_000_000
_FAR_NS = 200_000_000  # between the UTC anchors of two traces of a machine
_NEAR_NS = 20_000  # between the records of one event
_OF_ONE_NS = 1_000_000
_NO_NUMBER = -1


class Rows(NamedTuple):
    """Rows of the other trace's dimensions in the first one, -1 where there is none.

    Attributes:
        process: Shape (processes of the other,), int64.
        thread: Shape (threads of the other,), int64.
    """

    process: I64
    thread: I64


class Fit(NamedTuple):
    """What times of the other trace need to become times of the first one.

    Attributes:
        shift_ns: Is added.
        by: What it was found by, for users.
        errors_ns: Shape (n,), int64, how far each common event is from its record in the other
            trace afterwards; empty where there is no common event.
    """

    shift_ns: int
    by: str
    errors_ns: I64

    def __str__(self) -> str:
        if not len(self.errors_ns):
            return f"aligned by {self.by}"
        median, most = format_ns(float(np.median(self.errors_ns))), format_ns(self.errors_ns.max())
        return f"aligned by {self.by}: off by {median} in the median, {most} at most"


class _Events(NamedTuple):
    """Events that begin on a thread of the first trace.

    Attributes:
        key: Shape (n,), int64: equal for equal names on the same thread.
        start_ns: Shape (n,), int64.
    """

    key: I64
    start_ns: I64


def shift_of(ours: Trace, theirs: Trace, rows: Rows, monotonic_origin_ns: int | None) -> Fit | None:
    """Return how the clock of another trace differs; None if unknown.

    In this order: ranges of the other trace that state a monotonic time, CUDA API calls of the same
    correlation, calls and ranges of the same name on a thread, the UTC time at which each begins.

    Args:
        ours: The first trace.
        theirs: The other one, of the same processes.
        rows: Processes and threads of the other trace in the first one.
        monotonic_origin_ns: The monotonic time that is 0 in the first trace, if known.
    """
    fit = _by_stated_times(theirs, monotonic_origin_ns) or _by_correlation(ours, theirs, rows)
    if fit is not None:
        return fit
    anchors = ours.meta.origin_utc_ns, theirs.meta.origin_utc_ns
    if anchors[0] is None or anchors[1] is None:
        return None
    coarse_ns = anchors[1] - anchors[0]
    by_names = _by_names(ours, theirs, rows, coarse_ns)
    return by_names or Fit(coarse_ns, "UTC only", np.zeros(0, np.int64))


def _by_stated_times(theirs: Trace, monotonic_origin_ns: int | None) -> Fit | None:
    if monotonic_origin_ns is None or not theirs.has("range"):
        return None
    columns = theirs.columns("range", "name_id", "start_ns")
    distinct, codes = np.unique(columns["name_id"].filled(0), return_inverse=True)
    stated = [_stated_time(text) for text in theirs.strings.texts(distinct.tolist())]
    times = np.array([_NO_NUMBER if time is None else time for time in stated], np.int64)[codes]
    is_one = columns["name_id"].is_valid() & (times != _NO_NUMBER)
    if not is_one.any():
        return None
    # A range begins a moment after the time that it states: the least delay is the best.
    shifts = times[is_one] - monotonic_origin_ns - columns["start_ns"].values[is_one]
    shift_ns = int(shifts.max())
    return Fit(shift_ns, "torch's and the recording's clock", shift_ns - shifts)


def _stated_time(text: str) -> int | None:
    number = text.removeprefix(CLOCK)
    return int(number) if number != text and re.fullmatch(r"[0-9]{1,18}", number) else None


def _by_correlation(ours: Trace, theirs: Trace, rows: Rows) -> Fit | None:
    if not (ours.has("api_call") and theirs.has("api_call")):
        return None
    names = "process_id", "correlation_id", "start_ns", "name_id"
    mine, other = (trace.columns("api_call", *names) for trace in (ours, theirs))
    chosen = np.flatnonzero(mine["correlation_id"].is_valid())
    wanted = np.flatnonzero(other["correlation_id"].is_valid())
    found = lookup_rows(
        (rows.process[other["process_id"].values[wanted]], other["correlation_id"].values[wanted]),
        (mine["process_id"].values[chosen].astype(np.int64), mine["correlation_id"].values[chosen]),
    )
    here, there = chosen[found.row[found.found]], wanted[found.found]
    codes: dict[str, int] = {}
    is_same = (
        _name_codes(ours, mine["name_id"].values, codes)[here]
        == _name_codes(theirs, other["name_id"].values, codes)[there]
    )
    here, there = here[is_same], there[is_same]
    if len(here) < max(_LEAST, _LEAST_SHARE * len(wanted)):
        return None
    shifts = mine["start_ns"].values[here] - other["start_ns"].values[there]
    shift_ns = int(np.median(shifts))
    errors = np.abs(shifts - shift_ns)
    if np.median(errors) > _NEAR_NS:  # the numbers are not of the same calls
        return None
    return Fit(shift_ns, f"{len(here):,} CUDA API calls of the same correlation", errors)


def _by_names(ours: Trace, theirs: Trace, rows: Rows, coarse_ns: int) -> Fit | None:
    """Match calls and ranges by name and thread: the shift at which most of them meet."""
    threads = np.arange(ours.row_count("thread")) if ours.has("thread") else np.zeros(0, np.int64)
    codes: dict[str, int] = {}
    mine, other = _events(ours, threads, codes), _events(theirs, rows.thread, codes)
    other = _Events(other.key, other.start_ns + coarse_ns)
    is_common = np.isin(other.key, mine.key)
    other = _Events(other.key[is_common], other.start_ns[is_common])
    if len(other.key) < _LEAST:
        return None
    order = np.lexsort((mine.start_ns, mine.key))
    mine = _Events(mine.key[order], mine.start_ns[order])
    sample = np.linspace(0, len(other.key) - 1, min(len(other.key), _MOST_SAMPLED)).astype(np.int64)
    differences = np.sort(_differences(mine, other, sample))
    if not len(differences):
        return None
    ends = np.searchsorted(differences, differences + _NEAR_NS, side="right")
    counts = ends - np.arange(len(differences))
    best = int(np.argmax(counts))
    if counts[best] < max(_LEAST, _LEAST_SHARE * len(sample)):
        return None
    more_ns = int(np.median(differences[best : ends[best]]))
    off_ns = _nearest(mine, _Events(other.key, other.start_ns + more_ns))
    off_ns = off_ns[np.abs(off_ns) < _OF_ONE_NS]
    median_ns = int(np.median(off_ns))
    by = f"{len(off_ns):,} calls and ranges of the same name"
    return Fit(coarse_ns + more_ns + median_ns, by, np.abs(off_ns - median_ns))


def _events(trace: Trace, threads: I64, codes: dict[str, int]) -> _Events:
    """Return the calls and ranges of a trace on threads that both have.

    Args:
        trace: The trace.
        threads: The thread in the first trace of each thread of this one, or -1.
        codes: Numbers of names, which both traces share; new ones are added.
    """
    keys, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for table in ("api_call", "range"):
        if not trace.has(table):
            continue
        columns = trace.columns(table, "thread_id", "name_id", "start_ns")
        thread = threads[columns["thread_id"].values]
        rows = np.flatnonzero((thread >= 0) & columns["name_id"].is_valid())
        code = _name_codes(trace, columns["name_id"].values[rows], codes)
        keys.append(thread[rows] << 32 | code)
        starts.append(columns["start_ns"].values[rows])
    return _Events(np.concatenate(keys), np.concatenate(starts))


def _name_codes(trace: Trace, ids: npt.NDArray[np.int32], codes: dict[str, int]) -> I64:
    """Return numbers of names without what one version of CUDA or another adds to them."""
    distinct, places = np.unique(ids, return_inverse=True)
    texts = trace.strings.texts(distinct.tolist()) if len(ids) else []
    numbers = [codes.setdefault(_VERSION.sub("", text), len(codes)) for text in texts]
    of_rows: I64 = np.array(numbers, np.int64)[places]
    return of_rows


def _differences(mine: _Events, other: _Events, sample: I64) -> I64:
    """Return the distances of some events to all of the same key that are near."""
    first, last = _span_of_near(mine, other, sample)
    counts = last - first
    fitting = np.cumsum(counts) <= _MOST_PAIRS
    first, counts, sample = first[fitting], counts[fitting], sample[fitting]
    begin = np.cumsum(counts) - counts
    place = np.arange(int(counts.sum())) - np.repeat(begin, counts) + np.repeat(first, counts)
    distance: I64 = mine.start_ns[place] - np.repeat(other.start_ns[sample], counts)
    return distance


def _span_of_near(mine: _Events, other: _Events, sample: I64) -> tuple[I64, I64]:
    """Return, of each event of a sample, the rows of `mine` of the same key that are near."""
    first, last = np.zeros(len(sample), np.int64), np.zeros(len(sample), np.int64)
    keys, codes = np.unique(other.key[sample], return_inverse=True)
    for number, key in enumerate(keys.tolist()):
        low, high = np.searchsorted(mine.key, (key, key + 1))
        of_key = np.flatnonzero(codes == number)
        times, starts = mine.start_ns[low:high], other.start_ns[sample[of_key]]
        first[of_key] = low + np.searchsorted(times, starts - _FAR_NS)
        last[of_key] = low + np.searchsorted(times, starts + _FAR_NS, side="right")
    return first, last


def _nearest(mine: _Events, other: _Events) -> I64:
    """Return the distance of each event to the nearest one of the same key."""
    distance = np.zeros(len(other.key), np.int64)
    keys, codes = np.unique(other.key, return_inverse=True)
    for number, key in enumerate(keys.tolist()):
        low, high = np.searchsorted(mine.key, (key, key + 1))
        of_key = np.flatnonzero(codes == number)
        times, starts = mine.start_ns[low:high], other.start_ns[of_key]
        after = np.clip(np.searchsorted(times, starts), 1, max(len(times) - 1, 1))
        before = times[after - 1] - starts
        next_one = times[np.minimum(after, len(times) - 1)] - starts
        distance[of_key] = np.where(np.abs(before) <= np.abs(next_one), before, next_one)
    return distance
