"""Ranges that might be steps, for programs whose steps no range names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.ranges import (
    is_part_of_step,
    names_ranges,
    pattern_of,
    range_family,
    stem_of,
    step_names,
)
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values, factorize_rows
from warpline.result import StepCandidate
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import Trace

_MOST = 3
_TRIED = 24
_LEAST_COVERAGE = 0.5
_LEAST_REPEATS = 2
_MOST_REPEATS = 4096  # more ranges are rather operators than steps
_NEARLY_ALL = 0.9
_NO_NUMBER = -1


@derived
def step_candidates(trace: Trace) -> tuple[StepCandidate, ...]:
    """Return the ranges that might be steps, the longest first; at most three names."""
    if not trace.has("range") or not len(operations(trace)):
        return ()
    found: dict[int, StepCandidate] = {}
    for name, rows in _repeating(trace):
        family = range_family(trace, name, rows, np.full(len(rows), _NO_NUMBER))
        if family is None or family.held < _LEAST_COVERAGE * len(operations(trace)):
            continue
        count = int(np.bincount(family.loop).max())
        if count >= _LEAST_REPEATS:
            # Of ranges that occur together, the outermost hold most.
            candidate = StepCandidate(name, count, family.held / len(operations(trace)))
            found.setdefault(count, candidate)
        if len(found) == _MOST:
            break
    return tuple(found.values())


@derived
def lone_step_range(trace: Trace) -> str | None:
    """Return the name of a range that is the only step of each process; None without one."""
    if not trace.has("range") or not len(operations(trace)):
        return None
    named = step_names(trace)
    names, process = (
        column.filled(-1) for column in trace.columns("range", "name_id", "process_id").values()
    )
    chosen = np.isin(names, named.name_id[named.priority == 0])
    rows = np.flatnonzero(chosen)
    if not len(rows) or np.bincount(process[rows]).max() > 1:
        return None
    family = range_family(trace, "", rows, np.full(len(rows), _NO_NUMBER))
    own = np.isin(operations(trace).process, process[rows])
    if family is None or family.held < _NEARLY_ALL * np.count_nonzero(own):
        return None
    return trace.strings.text(int(names[rows[0]]))


def _repeating(trace: Trace) -> Iterator[tuple[str, I64]]:
    """Yield names of repeating ranges that hold most operations, fewest ranges first.

    Only ranges that hold their part of the operations are read: others may be millions.
    """
    held = _held(trace)
    total = len(operations(trace))
    rows = np.flatnonzero(held * 4 * _MOST_REPEATS >= _LEAST_COVERAGE * total)
    rows = rows[held[rows] > 0]
    columns = trace.columns("range", "name_id", "domain_id")
    name, domain = (column.filled(-1)[rows] for column in columns.values())
    rows, name, domain = (part[name >= 0] for part in (rows, name, domain))
    groups = factorize_rows(domain, name)
    texts = _choices(trace, domain[groups.first], name[groups.first])
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    code = np.array([places[text] for text in texts], np.int64)[groups.codes]
    count = np.bincount(code, minlength=len(places))
    holds = np.bincount(code, held[rows], minlength=len(places))
    able = (count >= _LEAST_REPEATS) & (count <= _MOST_REPEATS)
    able &= holds >= _LEAST_COVERAGE * total
    if "" in places:
        able[places[""]] = False
    chosen = np.flatnonzero(able)
    ordered = [*places]
    for place in chosen[np.lexsort((-holds[chosen], count[chosen]))][:_TRIED].tolist():
        yield ordered[place], rows[code == place]


def _held(trace: Trace) -> I64:
    """Return how many operations each range's process launches within it."""
    columns = trace.columns("range", "start_ns", "end_ns", "process_id")
    start, end, owner = (column.values.astype(np.int64) for column in columns.values())
    launched, process = launch_order(trace), operations(trace).process
    held = np.zeros(len(start), np.int64)
    for number in distinct_values(owner).tolist():
        times = np.sort(launched.time_ns[process == number])
        own = np.flatnonzero(owner == number)
        held[own] = np.searchsorted(times, end[own]) - np.searchsorted(times, start[own])
    return np.maximum(held, 0)


def _choices(trace: Trace, domain: I64, name: I64) -> list[str]:
    """Return the choice of steps that selects ranges of each name; empty if there is none.

    Ranges whose names differ in numbers go together, except modules of a model: one of another
    number is another module, not another step.
    """
    texts = trace.strings.texts(name.tolist())
    domains = {
        row: trace.strings.text(row) for row in distinct_values(domain[domain >= 0]).tolist()
    }
    patterns = [
        text if domains.get(row) == MODULE_DOMAIN else pattern_of(text)
        for text, row in zip(texts, domain.tolist(), strict=True)
    ]
    count = Counter(patterns)
    return [
        "" if is_part_of_step(text) else _choice(text, pattern) if count[pattern] > 1 else text
        for text, pattern in zip(texts, patterns, strict=True)
    ]


def _choice(text: str, pattern: str) -> str:
    """Return a text that selects the ranges of a pattern; brackets in a pattern have a meaning."""
    return pattern if names_ranges(text, pattern) else stem_of(text)
