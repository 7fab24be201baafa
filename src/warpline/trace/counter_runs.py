"""Runs of a program that counted different metrics of the same launches, as one recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace

import numpy as np

from warpline.errors import CounterError
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, concatenate, make_column, translated
from warpline.trace.meta import TraceMeta
from warpline.trace.replaced import ReplacedTables
from warpline.trace.trace import Trace
from warpline.units import plural

_KERNEL, _METRIC = "profiled_kernel", "kernel_metric"
_SHAPE = tuple(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz")
_NOT_THERE = -1


def merge_runs(
    runs: Sequence[Trace],
    metrics: Collection[str],
    *,
    clock: str,
    match: str = "grid",
    mode: str = "balanced",
    warnings: Sequence[str] = (),
) -> Trace:
    """Return the launches of the first run with the metrics of all runs.

    Launches are the same if they are of the same process and equal in what `match` says, and come
    in the same place among those. Processes are the same by their executable, their rank, and their
    place among those that have launches. A metric that several runs counted is that of the first of
    them, as is all else that is known of a launch.

    Args:
        runs: The recordings of the runs, at least one, each with counted launches.
        metrics: The metrics to keep.
        clock: The metric whose differences between the runs are the drift of the clock.
        match: ``name``; ``grid``, which is name, grid and block; ``all``, context and stream, too.
        mode: ``balanced``: launches that are missing in one of the runs are left out; ``relaxed``:
            those of the first run are kept, without the metrics of runs that miss them; ``strict``:
            there must be none.
        warnings: Warnings to add to those of the runs.

    Raises:
        CounterError: Some launches are missing in one of the runs, and the mode is ``strict``.
    """
    rows = _matched(runs, match)
    is_there = rows != _NOT_THERE
    is_in_all = is_there.all(axis=0)
    deviating = int(np.count_nonzero(~is_in_all))
    if deviating and mode == "strict":
        raise CounterError(
            f"{_of_all(deviating, rows)} not in all passes",
            hint="use --app-replay-mode balanced, --app-replay-match name, or --replay-mode kernel",
        )
    is_kept = is_there[0] if mode == "relaxed" else is_in_all
    chosen = np.flatnonzero(is_kept)
    chosen = chosen[np.argsort(rows[0, chosen])]
    rows_of_runs = rows[:, chosen]
    kernels = {
        column.name: runs[0].columns(_KERNEL, column.name)[column.name].take(rows_of_runs[0])
        for column in TABLES[_KERNEL].columns
    }
    kernels["clock_drift_ratio"] = _drift(runs, rows_of_runs, clock)
    kernels["passes"] = _passes(runs, rows_of_runs)
    tables = {_KERNEL: kernels, _METRIC: _metrics(runs, rows_of_runs, metrics)}
    told = [_deviation(deviating, rows, mode)] if deviating else []
    return Trace(ReplacedTables(runs[0], tables, _meta(runs, [*told, *warnings])))


def _deviation(deviating: int, rows: I64, mode: str) -> str:
    """Return what happened to launches that are not in all runs."""
    what = (
        "metrics of passes without them are missing, and launches that are not in the first pass"
        " are left out"
        if mode == "relaxed"
        else "they are left out"
    )
    return f"{_of_all(deviating, rows)} not in all passes: {what}"


def _of_all(count: int, rows: I64) -> str:
    total = rows.shape[1]
    return f"{count:,} of {plural(total, 'launch', 'launches')} {'is' if count == 1 else 'are'}"


def _matched(runs: Sequence[Trace], match: str) -> I64:
    """Return the row of each distinct launch in each run, shape (runs, launches); or -1."""
    processes: dict[Hashable, int] = {}
    names: dict[bytes, int] = {}
    parts = [_keys(run, match, processes, names) for run in runs]
    run_of = np.repeat(np.arange(len(runs)), [len(part) for part in parts])
    row_of = np.concatenate([np.arange(len(part)) for part in parts])
    keys = np.concatenate(parts)
    groups = factorize_rows(*keys.T)
    # The place of a launch among those of its run that are equal.
    order = np.lexsort((row_of, run_of, groups.codes))
    code, run = groups.codes[order], run_of[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (code[1:] != code[:-1]) | (run[1:] != run[:-1])
    begins = np.flatnonzero(is_first)
    place = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
    launches = factorize_rows(code.astype(np.int64), place)
    rows = np.full((len(runs), launches.n_groups), _NOT_THERE, np.int64)
    rows[run, launches.codes] = row_of[order]
    return rows


def _keys(run: Trace, match: str, processes: dict[Hashable, int], names: dict[bytes, int]) -> I64:
    """Return what must be equal of the launches of a run, shape (launches, parts).

    Args:
        run: The run.
        match: What must be equal.
        processes: Numbers of processes, which all runs share; new ones are added.
        names: Numbers of names, likewise.
    """
    columns = run.columns(_KERNEL, "process_id", "name_id", "context_id", "stream_id", *_SHAPE)
    keys = _process_keys(run, np.unique(columns["process_id"].values).tolist())
    of_process = np.zeros(run.row_count("process"), np.int64)
    for row, key in keys.items():
        of_process[row] = processes.setdefault(key, len(processes))
    distinct, codes = np.unique(columns["name_id"].values, return_inverse=True)
    of_name = [names.setdefault(run.strings.raw(row), len(names)) for row in distinct.tolist()]
    found = [
        of_process[columns["process_id"].values],
        np.array(of_name, np.int64)[codes],
    ]
    if match != "name":
        found += [columns[name].values for name in _SHAPE]
    if match == "all":
        for table in ("context", "stream"):
            native = run.columns(table, "native_id")["native_id"].values
            rows = columns[f"{table}_id"]
            known = np.append(native, -1)[rows.filled(len(native))]
            found.append(known)
    return np.stack(found, axis=1).astype(np.int64)


def _process_keys(run: Trace, rows: Sequence[int]) -> dict[int, Hashable]:
    """Return what identifies each of some processes: executable, rank, and place among those.

    Processes without counted launches, such as compilers that only the first run needs, have no
    place.
    """
    columns = run.columns("process", "name_id", "rank")
    names, ranks = columns["name_id"].to_list(), columns["rank"].to_list()
    seen: Counter[Hashable] = Counter()
    keys: dict[int, Hashable] = {}
    for row in rows:
        name = names[row]
        key = None if name is None else run.strings.raw(name), ranks[row]
        keys[row] = (*key, seen[key])
        seen[key] += 1
    return keys


def _metrics(runs: Sequence[Trace], rows: I64, metrics: Collection[str]) -> dict[str, ColumnData]:
    """Return the rows of `kernel_metric`: of each metric, those of the first run that has it."""
    specs = TABLES[_METRIC].columns
    parts: dict[str, list[ColumnData]] = {spec.name: [] for spec in specs}
    wanted, strings = {*metrics}, runs[0].strings
    for run, of_run in zip(runs, rows, strict=True):
        columns = run.columns(_METRIC, *(spec.name for spec in specs))
        place = _places(of_run, run.row_count(_KERNEL))
        names = np.unique(columns["name_id"].values).tolist()
        new = [row for row in names if run.strings.text(row) in wanted]
        wanted -= {*run.strings.texts(new)}
        is_new = np.isin(columns["name_id"].values, new)
        owner = place[columns["profiled_kernel_id"].values]
        chosen = np.flatnonzero(is_new & (owner != _NOT_THERE))
        for spec in specs:
            part = columns[spec.name].take(chosen)
            if spec.name == "profiled_kernel_id":
                part = make_column(spec, owner[chosen])
            elif spec.ref == "string":
                part = translated(part, run.strings, strings)
            parts[spec.name].append(part)
    return {name: concatenate(of_runs) for name, of_runs in parts.items()}


def _places(rows: I64, count: int) -> I64:
    """Return the place of each of `count` rows among some rows; or -1."""
    places = np.full(count, _NOT_THERE, np.int64)
    is_there = rows != _NOT_THERE
    places[rows[is_there]] = np.flatnonzero(is_there)
    return places


def _drift(runs: Sequence[Trace], rows: I64, clock: str) -> ColumnData:
    """Return (max - min) / max of the clock over the runs; null for fewer than two runs with it."""
    low = np.full(rows.shape[1], np.inf)
    high = np.zeros(rows.shape[1])
    count = np.zeros(rows.shape[1], np.int64)
    for run, of_run in zip(runs, rows, strict=True):
        values, is_known = _clocks(run, clock)
        is_there = of_run != _NOT_THERE
        is_there[is_there] = is_known[of_run[is_there]]
        found = np.where(is_there, np.append(values, 0)[of_run], 0.0)
        low = np.where(is_there, np.minimum(low, found), low)
        high = np.maximum(high, found)
        count += is_there
    is_known = count > 1
    drift = np.divide(high - low, high, out=np.zeros(len(high)), where=is_known)
    return make_column(TABLES[_KERNEL].column("clock_drift_ratio"), drift, is_known)


def _clocks(run: Trace, clock: str) -> tuple[F64, BoolArray]:
    """Return the clock of each launch of a run, and whether it is known."""
    values = np.zeros(run.row_count(_KERNEL))
    columns = run.columns(_METRIC, "profiled_kernel_id", "name_id", "value")
    name = run.strings.find(clock)
    if name is not None:
        value = columns["value"]
        is_one = (columns["name_id"].values == name) & value.is_valid()
        is_one &= np.isfinite(value.values) & (value.values > 0)
        values[columns["profiled_kernel_id"].values[is_one]] = value.values[is_one]
    return values, values > 0


def _passes(runs: Sequence[Trace], rows: I64) -> ColumnData:
    """Return the passes of each launch in all runs."""
    total = np.zeros(rows.shape[1], np.int64)
    for run, of_run in zip(runs, rows, strict=True):
        passes = run.columns(_KERNEL, "passes")["passes"].filled(1)
        total += np.append(passes, 0)[of_run]
    return make_column(TABLES[_KERNEL].column("passes"), total)


def _meta(runs: Sequence[Trace], added: Sequence[str]) -> TraceMeta:
    """Return the facts about the first run, with what was lost and warned about in all of them."""
    metas = [run.meta for run in runs]
    lost: dict[str, int | None] = {}
    for meta in metas:
        for name, count in meta.lost.items():
            before = lost.get(name, 0)
            lost[name] = None if count is None or before is None else before + count
    warnings = dict.fromkeys(text for meta in metas for text in meta.warnings)
    return replace(metas[0], lost=lost, warnings=(*added, *warnings))
