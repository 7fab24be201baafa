"""Ranges that are the steps of a program: ``step_7``, ``ProfilerStep#3``, ``train_step``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.errors import UsageError
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.tree import enclosing, nest
from warpline.trace import Run, Trace
from warpline.trace.recorder import table_hint

_NO_NUMBER = -1
_UNNAMED = -1
# Two ranges of a family are enough for one period. A family that launches less than this fraction
# of the work between its first start and its last end is only part of a step.
_LEAST_REPEATS = 2
_LEAST_COVERAGE = 0.5

_DIGITS = lazy_pattern(r"[0-9]+")
# The last word of a name, before its number if there is one: "train_step", "ProfilerStep#3",
# "Step[7]", "iteration 3/100", "epoch 1 step 20".
_END = (  # takes nothing back, so that a long name costs no more than its length
    r"s?+[\s_#:=.,\-\[(]*+(?:no\.?+\s*+)?+[0-9]*+\s*+(?:(?:/|of)\s*+[0-9]++)?+[\])\s]*+$"
)
_BEGIN = r"(?:^|(?<=[^A-Za-z])|(?<=[a-z])(?=[A-Z])|(?<=train)|(?<=training))"
_STEP = lazy_pattern(_BEGIN + r"(?i:step|iteration|iter|mini[_ -]?batch|batch)" + _END)
_UNIT_OF_WORK = lazy_pattern(
    _BEGIN + r"(?i:frame|token|request|query|decode|generate|inference|predict)" + _END
)
# step[DECODE bs=32]
_DETAILS = lazy_pattern(r"(?<=[A-Za-z])\[(?=[^\[\]A-Za-z]*+[A-Za-z])[^\[\]]*+\]$")
_LAST_NUMBER = lazy_pattern(r"(?<![0-9])([0-9]++)(?:\s*+(?:/|of)\s*+[0-9]++)?+[^0-9]*+$")
_NOT_A_STEP = lazy_pattern(
    r"(?i)warm[_ -]?up|optim|sched|micro|accum|zero_grad|epoch[s_ #:=\[]*\d*$"
)
_EPOCH = lazy_pattern(r"(?i)epoch")
_WORDS = (
    *(b"step", b"iter", b"batch"),
    *(b"frame", b"token", b"request", b"query", b"decode", b"generate", b"inference", b"predict"),
)
_NO_LETTERS = "0123456789 \t_#:=.,-/[]()"
_LAST_WORDS = (
    *("step", "iter", "iteration", "batch", "frame", "token", "request", "query", "decode"),
    *("generate", "inference", "predict", "s", "of", "no"),
)


class HostSteps(NamedTuple):
    """Steps on the CPU: by loop, then start; steps of a loop never overlap.

    Attributes:
        source: The common pattern of their names, such as ``range:step_*``.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        process: Shape (n,), int64, rows of the process table.
        thread: Shape (n,), int64, rows of the thread table; -1 for none.
        loop: Shape (n,), int64: steps of one loop run in sequence. A process is a loop, or each
            of its threads if several run steps concurrently.
        number: Shape (n,), int64, the number in the name, -1 for none.
        label: Shape (n,), int64, indices into `labels`.
        labels: Distinct names.
        is_cut: Shape (n,), bool, whether the recording began or ended within the step.
        notes: Caveats on step times.
    """

    source: str
    start_ns: I64
    end_ns: I64
    process: I64
    thread: I64
    loop: I64
    number: I64
    label: I64
    labels: tuple[str, ...]
    is_cut: BoolArray
    notes: tuple[str, ...] = ()


class Named(NamedTuple):
    """Distinct names of possible step ranges."""

    name_id: I64  # rows of the string pool, ascending
    number: I64
    pattern: tuple[str, ...]
    priority: I64  # 0 for names of steps, 1 for names of other units of work


class Family(NamedTuple):
    """Ranges with names of one pattern, rows of the range table by loop and start."""

    pattern: str
    rows: I64
    number: I64
    loop: I64
    held: int  # operations launched within
    coverage: float  # fraction of those launched between its first start and its last end, in 0..1


def run_of(trace: Trace, arguments: Sequence[str]) -> Run:
    """Return the run that a table is about: its argument ``name=`` chooses the steps."""
    named = [text.partition("=")[2] for text in arguments if text.startswith("name=")]
    return Run(trace, named[-1] if named else None)


@derived
def step_ranges(run: Run) -> HostSteps | None:
    """Return the ranges that are the program's steps; None if there are none.

    Names denote steps by their last word (step, iteration, iter, batch; otherwise frame, token,
    request and similar words), with or without a number. Of several repeating families, a family
    nested in another one is part of a step. Of unnested families, the one that launches most device
    work counts. It must launch at least half of the work of its processes in that time. Numbers
    must ascend, but may restart within ranges named epoch.

    If the run names its steps, they are the ranges of that name, with or without the number at its
    end, or of that pattern with ``*`` and ``?``; UsageError if no range matches.
    """
    trace = run.trace
    if not trace.has("range") or not trace.row_count("range"):
        _require_none(run)
        return None
    if run.steps is not None:
        return _as_steps(trace, _family_called(trace, run.steps))
    family = _best(trace, list(_families(trace)))
    return None if family is None else _as_steps(trace, family)


def _require_none(run: Run) -> None:
    if run.steps is not None:
        raise UsageError(
            f"no range matches {run.steps!r}: the recording has no ranges",
            hint=table_hint(run.trace, ("range",), "profile with --trace=cuda,nvtx"),
        )


def _families(trace: Trace) -> Iterable[Family]:
    """Yield the families of ranges whose names denote steps."""
    named = step_names(trace)
    if not len(named.name_id):
        return
    ids = trace.columns("range", "name_id")["name_id"].filled(-1)
    place_of_text = np.full(len(trace.strings) + 1, _UNNAMED)  # the last one is of id -1
    place_of_text[named.name_id] = np.arange(len(named.name_id))
    place = place_of_text[ids]
    rows = np.flatnonzero(place != _UNNAMED)
    place = place[rows]
    patterns = {text: number for number, text in enumerate(dict.fromkeys(named.pattern))}
    codes = np.array([patterns[text] for text in named.pattern], np.int64)[place]
    for priority in (0, 1):
        families = []
        for pattern, code in patterns.items():
            chosen = np.flatnonzero((codes == code) & (named.priority[place] == priority))
            if len(chosen) >= _LEAST_REPEATS:
                family = range_family(trace, pattern, rows[chosen], named.number[place[chosen]])
                families += [family] if family is not None else []
        if families:
            yield from families
            return


def step_names(trace: Trace) -> Named:
    """Return the names of steps, or of other units of work."""
    ids, numbers, patterns, priorities = [], [], [], []
    for row in _with_words(trace):
        whole = trace.strings.text(row)
        text = _DETAILS.sub("", whole)
        if not text.rstrip(_NO_LETTERS).lower().endswith(_LAST_WORDS):
            continue  # much faster than the patterns
        priority = 0 if _STEP.search(text) else 1 if _UNIT_OF_WORK.search(text) else None
        if priority is not None and not is_part_of_step(text):
            ids.append(row)
            has_details = len(text) < len(whole)  # their numbers are sizes
            numbers.append(_NO_NUMBER if has_details else _number(text))
            patterns.append(f"{text}[*]" if has_details else pattern_of(text))
            priorities.append(priority)
    return Named(
        np.array(ids, np.int64), np.array(numbers, np.int64), tuple(patterns), np.array(priorities)
    )


def _with_words(trace: Trace) -> list[int]:
    """Return the names that contain one of `_WORDS`, rows of the string pool, ascending.

    A framework's ranges may have a million names, one per operator call, so all of them are
    searched at once.
    """
    names = trace.columns("range", "name_id")["name_id"]
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[names.filled(len(trace.strings))] = True
    rows = np.flatnonzero(used[:-1])
    raws = [trace.strings.raw(row) for row in rows.tolist()]
    begins = np.cumsum([0, *(len(raw) + 1 for raw in raws)])
    together = b"\n".join(raws).lower()
    places = [found.start() for word in _WORDS for found in re.finditer(re.escape(word), together)]
    numbers = np.searchsorted(begins, np.array(places, np.int64), side="right") - 1
    return [int(row) for row in rows[distinct_values(numbers)]]


def _number(text: str) -> int:
    """Return the running number in a name: the last one, but the first of ``3/100``."""
    found = _LAST_NUMBER.search(text)
    return int(found[1]) if found and len(found[1]) < 18 else _NO_NUMBER


def has_ranges_called(trace: Trace, name: str) -> bool:
    """Return whether any range has exactly this name."""
    if not trace.has("range"):
        return False
    used = distinct_values(trace.columns("range", "name_id")["name_id"].filled(-1))
    return name in trace.strings.texts(used[used >= 0].tolist())


def _family_called(trace: Trace, name: str) -> Family:
    names = trace.columns("range", "name_id")["name_id"]
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[names.filled(len(trace.strings))] = True
    ids = np.flatnonzero(used[:-1])
    texts = trace.strings.texts(ids.tolist())
    matches = np.array([names_ranges(text, name) for text in texts], np.bool_)
    if not matches.any():
        # "step" for step_0, step_1...
        matches = np.array([stem_of(text) == name for text in texts], np.bool_)
    if not matches.any():
        raise UsageError(
            f"no range matches {name!r}",
            hint="list range names with `warpline stats -r nvtx_sum`; * matches any text",
        )
    chosen = np.isin(names.filled(-1), ids[matches])
    number = np.full(len(trace.strings), _NO_NUMBER, np.int64)
    number[ids[matches]] = [
        _number(text) for text, fits in zip(texts, matches.tolist(), strict=True) if fits
    ]
    rows = np.flatnonzero(chosen)
    family = range_family(trace, name, rows, number[names.values[rows]])
    if family is None:
        raise UsageError(
            f"ranges {name!r} overlap each other and cannot be steps",
            hint="use ranges that run in sequence",
        )
    return family


def pattern_of(text: str) -> str:
    """Return a name with ``*`` in place of each number."""
    return _DIGITS.sub("*", text)


def is_part_of_step(text: str) -> bool:
    """Return whether a name is that of a part of a step, or of several, whatever it repeats."""
    return _NOT_A_STEP.search(text) is not None


def names_ranges(text: str, name: str) -> bool:
    """Return whether ranges of a name are called so by the user: exactly, or by a pattern."""
    return text == name or fnmatchcase(text, name)


def stem_of(text: str) -> str:
    """Return a name without its number and the separator before it."""
    return _DIGITS.sub("", text).rstrip(" _#:=.,-[]()")


def range_family(trace: Trace, pattern: str, rows: I64, number: I64) -> Family | None:
    """Return the outermost ranges of each thread; None if they overlap."""
    start, end, process, thread = _times(trace, rows)
    outer = np.flatnonzero(~nest(start, end, thread).has_parent)
    start, end, process, thread = (part[outer] for part in (start, end, process, thread))
    loop = factorize_rows(process).codes.astype(np.int64)
    if _overlaps(start, end, loop):
        # Several threads of a process may each run their own steps.
        own = _launches_itself(trace, start, end, thread)
        if own.any():
            outer, start, end, thread = (part[own] for part in (outer, start, end, thread))
        loop = factorize_rows(thread).codes.astype(np.int64)
        if _overlaps(start, end, loop):
            return None
    order = np.lexsort((start, loop))
    outer, loop = outer[order], loop[order]
    return Family(pattern, rows[outer], number[outer], loop, *_held(trace, rows[outer], loop))


def _times(trace: Trace, rows: I64) -> tuple[I64, I64, I64, I64]:
    columns = trace.columns("range", "start_ns", "end_ns", "process_id", "thread_id")
    start, end, process, thread = (part.values[rows].astype(np.int64) for part in columns.values())
    return start, np.maximum(start, end), process, thread


def _overlaps(start: I64, end: I64, loop: I64) -> bool:
    order = np.lexsort((start, loop))
    start, end, loop = start[order], end[order], loop[order]
    return bool(np.any((start[1:] < end[:-1]) & (loop[1:] == loop[:-1])))


def _launches_itself(trace: Trace, start: I64, end: I64, thread: I64) -> BoolArray:
    """Return which ranges are on a thread that launched work within any of them."""
    launched = launch_order(trace)
    inside = enclosing(launched.time_ns, start, end, point_group=launched.thread, group=thread)
    return np.isin(thread, launched.thread[inside.found])


def _held(trace: Trace, rows: I64, loop: I64) -> tuple[int, float]:
    """Return the number of operations launched within, and their fraction of all in that time."""
    start, end, process, _ = _times(trace, rows)
    launched, of_process = launch_order(trace), operations(trace).process
    held = between = 0
    for number in range(int(loop.max(initial=-1)) + 1):
        own = loop == number
        times = launched.time_ns[of_process == process[own][0]]
        times.sort(kind="stable")  # linear where the streams, one after another, ascend
        bounds = np.searchsorted(times, np.stack((start[own], end[own])))
        held += int((bounds[1] - bounds[0]).sum())
        between += int(bounds.max() - bounds.min())
    return held, held / between if between else 0.0


def _best(trace: Trace, families: list[Family]) -> Family | None:
    """Return the outermost repeating family that launches most of the work."""
    able = [
        family
        for family in families
        if _repeats(family) and _holds_work(trace, family) and _runs(trace, family)
    ]
    outer = [
        family
        for family in able
        if not any(_is_inside(trace, family, other) for other in able if other is not family)
    ]
    return max(outer or able, key=lambda family: (family.held, len(family.rows)), default=None)


def _holds_work(trace: Trace, family: Family) -> bool:
    """Return whether a family launches most of the work of its time, or there is no work."""
    if not len(operations(trace)):
        return True
    return family.held > 0 and family.coverage >= _LEAST_COVERAGE


def _repeats(family: Family) -> bool:
    return bool(np.bincount(family.loop).max(initial=0) >= _LEAST_REPEATS)


def _runs(trace: Trace, family: Family) -> bool:
    """Return whether the numbers ascend, or restart only in a new epoch."""
    same_loop = family.loop[1:] == family.loop[:-1]
    falls = np.flatnonzero((family.number[1:] <= family.number[:-1]) & same_loop)
    if not len(falls) or np.all(family.number == _NO_NUMBER):
        return True
    names = trace.columns("range", "name_id")["name_id"].filled(-1)
    distinct = distinct_values(names[names >= 0]).tolist()
    epochs = [row for row in distinct if _EPOCH.search(trace.strings.text(row))]
    around = np.flatnonzero(np.isin(names, epochs))
    if not len(around):
        return False
    start, end, process, _ = _times(trace, around)
    points, _, owner, _ = _times(trace, family.rows)
    epoch = enclosing(points, start, end, point_group=owner, group=process)
    return bool(np.all(epoch.row[falls] != epoch.row[falls + 1]) and epoch.found.all())


def _is_inside(trace: Trace, inner: Family, outer: Family) -> bool:
    """Return whether most ranges of a family are nested in ranges of another one."""
    start, end, process, _ = _times(trace, outer.rows)
    points, ends, owner, _ = _times(trace, inner.rows)
    around = enclosing(points, start, end, point_group=owner, group=process)
    inside = around.found & (ends <= end[around.row])
    # If two families enclose the same work, they differ only slightly: the one that starts later is
    # the inner one.
    return bool(inside.mean() > 0.5)


def _as_steps(trace: Trace, family: Family) -> HostSteps:
    start, end, process, thread = _times(trace, family.rows)
    columns = trace.columns("range", "name_id", "is_truncated")
    names = columns["name_id"].values[family.rows]
    distinct, label = np.unique(names, return_inverse=True)
    first, last = trace.span()
    return HostSteps(
        source=f"range:{family.pattern}",
        start_ns=start,
        end_ns=end,
        process=process,
        thread=thread,
        loop=family.loop,
        number=family.number,
        label=label.reshape(-1).astype(np.int64),
        labels=tuple(trace.strings.texts(distinct.tolist())),
        is_cut=columns["is_truncated"].values[family.rows] | (start < first) | (end > last),
    )
