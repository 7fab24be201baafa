"""Many ranks of one job: recordings reduced to summaries by workers, and one answer."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import plugins, progress
from warpline.api.recordings import PathLike, opened
from warpline.documents import failures
from warpline.errors import InputError, UsageError, WarplineError
from warpline.lazy import lazy
from warpline.result import Skipped, source_name
from warpline.result.fleet import Fleet, LeftOut
from warpline.trace import Run
from warpline.trace.reading import files_of
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.fleet import (
        answer,
        cluster,
        flight_calls,
        flight_dumps,
        reducing,
        summarizing,
        summary,
        verdict,
    )
    from warpline.fleet.reducing import Reduced
    from warpline.fleet.summary import RankSummary
else:
    answer = lazy("warpline.fleet.answer")
    cluster = lazy("warpline.fleet.cluster")
    flight_dumps = lazy("warpline.fleet.flight_dumps")
    reducing = lazy("warpline.fleet.reducing")
    summarizing = lazy("warpline.fleet.summarizing")
    summary = lazy("warpline.fleet.summary")
    verdict = lazy("warpline.fleet.verdict")

_FEW = 8  # recordings that one process reads before workers would have started
_DUMPS = 16  # of flight recorders, that take the time of a recording
_LARGE = 64  # recordings from which on the first ranks are reported
_WILD = "*?["


def fleet(
    recordings: PathLike | Sequence[PathLike],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    steps: str | None = None,
    early: Callable[[Fleet], None] | None = None,
    dashboard: Callable[[str], None] | None = None,
) -> Fleet:
    """Find out where the time of a job of many ranks went, and which ranks delay the others.

    Each recording is reduced to a summary by a worker. Nothing holds the events of two ranks.

    Args:
        recordings: Files, patterns such as ``run/*.warpline``, and directories. Dumps of PyTorch's
            flight recorder may be among them.
        workers: Number of processes on this machine. 1 reads the recordings in this process,
            without dask. None takes one per CPU core; few recordings, or all if dask.distributed
            is not installed, are read in this process.
        scheduler: Address of the scheduler of a running dask cluster, whose workers see the
            recordings under the same paths.
        steps: Name of the NVTX ranges that are steps, or a pattern such as ``epoch_*``. None
            detects steps.
        early: Called with the answer about the first few ranks of a large job.
        dashboard: Called with the address of dask's dashboard, which is served only if this is
            given.

    Returns:
        The content of `warpline fleet analyze`. `Fleet.to_dict` is its JSON.

    Raises:
        UsageError: No recording matches, or dask.distributed is missing, or there is no scheduler.
        InputError: No recording could be used.
    """
    paths = matching(recordings)
    if workers is not None and scheduler is not None:
        raise UsageError("--workers and --scheduler cannot be combined", hint="leave one out")
    count = _workers(workers, _weight(paths)) if scheduler is None else 0
    leaf = partial(summary_of, steps=steps)
    first = None if early is None or len(paths) < _LARGE else partial(_early, paths, early)
    with progress.task("Summarizing ranks", len(paths)) as advance:
        if count == 1:
            parts, said = _in_turn(paths, leaf, advance, first), _said_alone(workers, paths)
        else:
            with _client(count, scheduler, has_dashboard=dashboard is not None) as client:
                if dashboard is not None:
                    dashboard(client.dashboard_link)
                said = _said(client, scheduler)
                parts = cluster.reduced(client, paths, leaf, advance, first)
    return _answer(paths, parts, said)


def _early(paths: Sequence[str], report: Callable[[Fleet], None], parts: Reduced) -> None:
    """Report the answer about the first ranks, if there are any."""
    summaries = summary.unpacked(parts.content)
    if summaries:
        title = source_name([Path(path) for path in paths])
        # Of some ranks, dumps would say that the others are missing.
        report(verdict.verdict_of(title, summaries, parts.left_out))


def _answer(paths: Sequence[str], parts: Reduced, workers: str) -> Fleet:
    with progress.task("Comparing ranks"):
        summaries, twice = verdict.once_each(summary.unpacked(parts.content))
        dumps, more = answer.one_of_each_rank(parts.dumps)
        if not summaries and not dumps:
            raise InputError(
                f"none of {plural(len(paths), 'recording')} could be used: {_first(parts)}",
                hint="warpline summary shows what a recording has",
            )
        title = source_name([Path(path) for path in paths])
        left_out = (*parts.left_out, *twice, *more)
        found = answer.answer_of(title, summaries, dumps, left_out)
    return found.with_workers(workers)


def _first(parts: Reduced) -> str:
    if not parts.left_out:
        return "no GPU work was recorded"
    return f"{Path(parts.left_out[0].path).name}: {parts.left_out[0].reason}"


def matching(recordings: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the absolute paths of recordings, each once; patterns name all files that match.

    Raises:
        UsageError: A pattern matches nothing.
    """
    words = [recordings] if isinstance(recordings, str | os.PathLike) else list(recordings)
    plugins.load("readers")  # they know which files of a directory are recordings
    found: dict[str, None] = {}
    for word in [os.fspath(item) for item in words]:
        is_pattern = any(char in word for char in _WILD) and not Path(word).exists()
        files = sorted(glob.glob(word, recursive=True)) if is_pattern else [word]  # noqa: PTH207
        if not files:
            raise UsageError(f"no recording matches {word}", hint="check the pattern with ls")
        inside = [item for file in files for item in _files_in(Path(file))]
        found |= dict.fromkeys(str(item.absolute()) for item in inside)
    if not found:
        raise UsageError("no recording given", hint="warpline fleet analyze 'run/*.warpline'")
    return list(found)


def _files_in(path: Path) -> list[Path]:
    """Return the file of a path, or the recordings in a directory, or else its dumps."""
    found = files_of(path)
    if found != [path] or not path.is_dir():
        return found
    return sorted(item for item in path.iterdir() if flight_dumps.is_dump(item)) or found


def summary_of(path: str, *, steps: str | None = None) -> Reduced:
    """Return the summaries of a recording's ranks; if it cannot be used, the reason.

    Workers run this: it raises nothing that is about the file.
    """
    try:
        if flight_dumps.is_dump(Path(path)):
            return reducing.Reduced(b"", (), (_dump(path),))
        made = failures.marked("fleet", partial(_summarized, path, steps))
    except WarplineError as error:
        return _left_out(path, error.message.removeprefix(f"{path}: ").removeprefix(f"{path} "))
    except OSError as error:
        return _left_out(path, error.strerror or str(error))
    if isinstance(made, Skipped):
        return _left_out(path, made.reason)
    if not made:
        return _left_out(path, "no GPU work was recorded")
    return reducing.Reduced(summary.packed(made), ())


def _summarized(path: str, steps: str | None) -> list[RankSummary]:
    try:
        return summarizing.summarize(Run(opened(path), steps))
    except MemoryError as error:
        raise InputError("not enough memory", hint="use fewer workers") from error


def _dump(path: str) -> flight_calls.FlightDump:
    try:
        return flight_dumps.read_dump(Path(path))
    except MemoryError as error:
        raise InputError("not enough memory", hint="use fewer workers") from error


def _left_out(path: str, reason: str) -> Reduced:
    return reducing.Reduced(b"", (LeftOut(path, reason),))


def _in_turn(
    paths: Sequence[str],
    leaf: Callable[[str], Reduced],
    advance: progress.Advance,
    first: Callable[[Reduced], None] | None,
) -> Reduced:
    parts = []
    for part in reducing.in_turn(paths, leaf):
        parts.append(part)
        advance(1)
        if first is not None and len(parts) == reducing.FIRST:
            first(reducing.joined(parts))
    return reducing.joined(parts)


def _weight(paths: Sequence[str]) -> int:
    """Return as how many recordings some files count: many dumps are read in the time of one."""
    dumps = sum(flight_dumps.is_dump(Path(path)) for path in paths)
    return len(paths) - dumps + dumps // _DUMPS


def _workers(wanted: int | None, recordings: int) -> int:
    """Return how many processes read recordings; 1 for this one."""
    has_dask = importlib.util.find_spec("distributed") is not None
    if wanted is not None:
        if not 1 <= wanted <= 1024:
            raise UsageError(f"--workers {wanted}: must be 1 to 1024")
        if wanted > 1 and not has_dask:
            raise cluster.MISSING
        return wanted
    if not has_dask or recordings <= _FEW:
        return 1
    has_affinity = hasattr(os, "sched_getaffinity")  # Linux
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(cores, recordings)


def _said_alone(wanted: int | None, paths: Sequence[str]) -> str:
    if wanted is None and _weight(paths) > _FEW and importlib.util.find_spec("distributed") is None:
        return (
            "Summaries made by one process; install warpline[cluster] (dask.distributed) to use"
            " all CPU cores or a cluster."
        )
    return ""


@contextlib.contextmanager
def _client(
    count: int, scheduler: str | None, *, has_dashboard: bool
) -> Iterator[cluster.distributed.Client]:
    if importlib.util.find_spec("distributed") is None:
        raise cluster.MISSING
    if has_dashboard and importlib.util.find_spec("bokeh") is None:
        raise UsageError("dask's dashboard needs bokeh", hint="pip install bokeh")
    if scheduler is None:
        with cluster.local(count, dashboard=has_dashboard) as client:
            yield client
    else:
        with cluster.existing(scheduler) as client:
            yield client


def _said(client: cluster.distributed.Client, scheduler: str | None) -> str:
    count = len(client.scheduler_info(n_workers=-1)["workers"])
    where = "on this machine" if scheduler is None else f"of the dask cluster at {scheduler}"
    return f"Summaries made by {plural(count, 'worker')} {where}."
