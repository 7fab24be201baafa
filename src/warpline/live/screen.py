"""An update of a recording in progress as the rows of a table and the lines around it."""

from __future__ import annotations

from dataclasses import dataclass

from warpline.live.measure import Rank, StepNumbers
from warpline.live.watch import SECOND_NS, Update
from warpline.units import format_count, format_ns, format_ratio, plural

_LEAST_SHARE = 0.001  # of idle time that is named
_MOST_CAUSES = 3
_NOTHING = "-"
_OLD_NS = SECOND_NS * 3 // 2

_SPARED = ("name", "last step", "pid", "ops/s", "steps/s")  # in this order, where room is short

NUMBERS = frozenset({"GPU", "rank", "pid", "busy", "ops/s", "steps/s", "step", "last step"})


@dataclass(frozen=True)
class Screen:
    """What is shown of an update.

    Attributes:
        title: What is recorded, and for how long.
        header: Names of the columns.
        rows: A row per process and GPU.
        foot: Of which time the numbers are.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    foot: str


def screen(update: Update, window_s: float) -> Screen:
    """Return what is shown of an update, with a window of that many seconds, or of one if dense."""
    ranks, has_ranks = _ranks(update), False
    has_ranks = any(rank.number is not None for rank in ranks)
    times = update.times
    is_dense = times is not None and times.end_ns - times.start_ns == SECOND_NS
    window = "1 s" if is_dense else f"{window_s:g} s"
    header = ["GPU", "name", "pid", "process"]
    header[2:2] = ["rank"] if has_ranks else []
    columns = ("busy", f"busy {window}", "ops/s", "steps/s", "step", "last step", f"idle {window}")
    rows = tuple(_row(update, rank, has_ranks=has_ranks) for rank in ranks)
    return Screen(_title(update), (*header, *columns), rows, _foot(update))


def text(shown: Screen) -> str:
    """Return a screen as lines of text."""
    title, table, foot = lines(shown)
    return "\n".join([title, *table, foot])


def lines(shown: Screen, columns: int | None = None) -> tuple[str, list[str], str]:
    """Return the title, the lines of the table, of which the first is its header, and the foot.

    Args:
        shown: The screen.
        columns: How long lines may be: columns of the table that matter less are left out, and
            what remains may be longer. None for any length.
    """
    table = [shown.header, *shown.rows] if shown.rows else []
    for name in (None, *_SPARED):
        if name in shown.header:
            place = table[0].index(name)
            table = [(*row[:place], *row[place + 1 :]) for row in table]
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        aligned = [_line(table[0], row, widths) for row in table]
        if columns is None or max(map(len, aligned), default=0) <= columns:
            break
    return shown.title, aligned, shown.foot


def is_number(column: str) -> bool:
    """Return whether a column has numbers, which are aligned to the right."""
    return column in NUMBERS or column.startswith("busy")


def _line(header: tuple[str, ...], row: tuple[str, ...], widths: list[int]) -> str:
    cells = zip(header, row, widths, strict=True)
    aligned = (cell.rjust(n) if is_number(name) else cell.ljust(n) for name, cell, n in cells)
    return "  ".join(aligned).rstrip()


def _title(update: Update) -> str:
    if not update.is_recording:
        return f"{update.name}: recording has ended; this is its last screen"
    return f"{update.name}: recording for {format_ns(update.now_ns)}"


def _foot(update: Update) -> str:
    second, times = update.second, update.times
    if second is None:
        return "nothing yet: GPU work is shown about a second after it ran"
    behind = format_ns(update.now_ns - second.end_ns)
    open_ones = "" if second.is_settled else " (not all known yet)"
    parts = [f"busy: 1 s until {behind} ago{open_ones}"] if second.gpus else []
    if times is not None and not second.gpus and not (update.steps and update.steps.ranks):
        length = format_ns(times.end_ns - times.start_ns)
        parts.append(f"no GPU work and no steps in {length} until {behind} ago")
    elif times is not None:
        length = format_ns(times.end_ns - times.start_ns)
        age_ns = update.now_ns - times.end_ns
        known = "" if times.is_settled else " (the newest gaps may change)"
        what = "idle causes" if second.gpus else "steps"
        parts.append(f"{what}: {length} until {format_ns(age_ns)} ago{known}")
    steps = update.steps
    if steps is not None and steps.ranks and times is not None and steps.end_ns != times.end_ns:
        parts.append(f"steps: until {format_ns(update.now_ns - steps.end_ns)} ago")
    if update.lost:
        parts.append(f"{format_count(update.lost)} events lost")
    if update.damaged_logs:
        parts.append(f"{plural(update.damaged_logs, 'log')} damaged: events are missing")
    return "; ".join(parts)


def _ranks(update: Update) -> list[Rank]:
    """Return the rows: by GPU and process; GPUs at rest, and processes without one, too."""
    found: dict[tuple[int, int], Rank] = {}
    of_times = [] if update.times is None else [each.rank for each in update.times.ranks]
    of_steps = [] if update.steps is None else [each.rank for each in update.steps.ranks]
    for rank in (*of_times, *of_steps):
        found.setdefault(_key(rank), rank)
    used = {rank.gpu_index for rank in found.values()}
    for gpu in () if update.second is None else update.second.gpus:
        if gpu.gpu_index not in used:
            rank = Rank(0, None, None, gpu.gpu_index, gpu.name)
            found[_key(rank)] = rank
    return [found[key] for key in sorted(found)]


def _key(rank: Rank) -> tuple[int, int]:
    return (1 << 30 if rank.gpu_index is None else rank.gpu_index), rank.pid


def _row(update: Update, rank: Rank, *, has_ranks: bool) -> tuple[str, ...]:
    cells = [
        _NOTHING if rank.gpu_index is None else str(rank.gpu_index),
        rank.gpu or _NOTHING,
        str(rank.pid) if rank.pid else _NOTHING,
        rank.process or _NOTHING,
    ]
    cells[2:2] = [_NOTHING if rank.number is None else str(rank.number)] if has_ranks else []
    busy_ratio, causes = _of_window(update, rank)
    return (*cells, *_of_second(update, rank), *_of_steps(update, rank, busy_ratio), causes)


def _of_second(update: Update, rank: Rank) -> tuple[str]:
    second = update.second
    gpus = () if second is None else second.gpus
    found = next((gpu for gpu in gpus if gpu.gpu_index == rank.gpu_index), None)
    if second is None or found is None or rank.gpu_index is None:
        return (_NOTHING,)
    mark = "" if second.is_settled else "~"
    return (mark + format_ratio(found.busy_ns / (second.end_ns - second.start_ns)),)


def _operations(update: Update, rank: Rank) -> str:
    second = update.second
    gpus = () if second is None else second.gpus
    found = next((gpu for gpu in gpus if gpu.gpu_index == rank.gpu_index), None)
    if second is None or found is None or rank.gpu_index is None:
        return _NOTHING
    return format_count(round(found.operations * SECOND_NS / (second.end_ns - second.start_ns)))


def _of_window(update: Update, rank: Rank) -> tuple[str, str]:
    times = update.times
    ranks = () if times is None else times.ranks
    found = next((each for each in ranks if _key(each.rank) == _key(rank)), None)
    if times is None or found is None:
        return _NOTHING, _NOTHING
    length = times.end_ns - times.start_ns
    shares = [(part.label, ns / length) for part, ns in found.idle_ns.items()]
    named = [f"{label} {format_ratio(of)}" for label, of in shares if of >= _LEAST_SHARE]
    more = ", ..." if len(named) > _MOST_CAUSES else ""
    causes = ", ".join(named[:_MOST_CAUSES]) + more
    return format_ratio(found.busy_ns / length), causes or _NOTHING


def _of_steps(update: Update, rank: Rank, busy_ratio: str) -> tuple[str, ...]:
    ranks = () if update.steps is None else update.steps.ranks
    found = next((each.steps for each in ranks if _key(each.rank) == _key(rank)), None)
    return (busy_ratio, _operations(update, rank), *_step_cells(found))


def _step_cells(found: StepNumbers | None) -> tuple[str, str, str]:
    if found is None:
        return (_NOTHING,) * 3
    median = _NOTHING if found.median_ns is None else format_ns(found.median_ns)
    return f"{found.per_s:.3g}", median, format_ns(found.last_ns)
