"""Recordings of many ranks, found and reduced to summaries: in this process, or by workers."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline import plugins, progress
from warpline.api.recordings import PathLike, opened
from warpline.documents import failures
from warpline.errors import InputError, UsageError, WarplineError
from warpline.lazy import lazy
from warpline.result import Skipped
from warpline.result.fleet import LeftOut
from warpline.trace import Run
from warpline.trace.reading import files_of
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.documents import comparison
    from warpline.fleet import cluster, flight_calls, flight_dumps, reducing, summarizing, summary
    from warpline.fleet.reducing import Reduced
    from warpline.fleet.summary import RankSummary
else:
    comparison = lazy("warpline.documents.comparison")
    cluster = lazy("warpline.fleet.cluster")
    flight_dumps = lazy("warpline.fleet.flight_dumps")
    reducing = lazy("warpline.fleet.reducing")
    summarizing = lazy("warpline.fleet.summarizing")
    summary = lazy("warpline.fleet.summary")

_FEW = 8  # recordings that one process reads before workers would have started
_DUMPS = 16  # of flight recorders, that take the time of a recording
_WILD = "*?["
_ENDINGS = (".warpline", ".sqlite", ".json", ".json.gz")  # of recordings in a directory

Leaf = Callable[[str], "Reduced"]
First = Callable[["Reduced"], None]


class Reader(NamedTuple):
    """What reduces recordings to summaries.

    Attributes:
        reduced: Returns the summaries of some recordings, given what reduces one of them, what to
            call with the number of recordings that became ready, and with the first summaries.
        said: How the summaries are made, in a sentence; empty for this process.
    """

    reduced: Callable[[Sequence[str], Leaf, progress.Advance, First | None], Reduced]
    said: str


@contextlib.contextmanager
def reader(
    paths: Sequence[str],
    workers: int | None,
    scheduler: str | None,
    dashboard: Callable[[str], None] | None = None,
) -> Iterator[Reader]:
    """Yield what reduces recordings: this process, or workers that run until the context ends.

    Args:
        paths: The recordings.
        workers: As for `api.fleet`.
        scheduler: As for `api.fleet`.
        dashboard: As for `api.fleet`.

    Raises:
        UsageError: Both are given, dask.distributed is missing, or there is no scheduler.
    """
    if workers is not None and scheduler is not None:
        raise UsageError("--workers and --scheduler cannot be combined", hint="leave one out")
    recordings = _weight(paths)
    count = _workers(workers, recordings) if scheduler is None else 0
    if count == 1:
        yield Reader(_in_turn, _said_alone(workers, recordings))
        return
    with _client(count, scheduler, has_dashboard=dashboard is not None) as client:
        if dashboard is not None:
            dashboard(client.dashboard_link)
        yield Reader(partial(cluster.reduced, client), _said(client, scheduler))


def without_any(paths: Sequence[str], parts: Reduced) -> InputError:
    """Return the error for recordings of which none could be used."""
    why = "no GPU work was recorded"
    if parts.left_out:
        why = f"{Path(parts.left_out[0].path).name}: {parts.left_out[0].reason}"
    return InputError(
        f"none of {plural(len(paths), 'recording')} could be used: {why}",
        hint="warpline summary shows what a recording has",
    )


def matching(recordings: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the absolute paths of recordings, each once; patterns name all files that match.

    Raises:
        UsageError: A pattern matches nothing.
    """
    words = [recordings] if isinstance(recordings, str | os.PathLike) else list(recordings)
    plugins.load("readers")  # they know which files of a directory are recordings
    found: dict[str, None] = {}
    for word in [os.fspath(item) for item in words]:
        files = sorted(glob.glob(word, recursive=True)) if is_pattern(word) else [word]  # noqa: PTH207
        if not files:
            raise UsageError(f"no recording matches {word}", hint="check the pattern with ls")
        inside = [item for file in files for item in _recordings_of(Path(file))]
        found |= dict.fromkeys(str(item.absolute()) for item in inside)
    if not found:
        raise UsageError("no recording given", hint="warpline fleet analyze 'run/*.warpline'")
    return list(found)


def _recordings_of(path: Path) -> list[Path]:
    """Return the file of a path; of a directory, the recordings and dumps in it, by name."""
    found = files_of(path)
    if found != [path] or not path.is_dir():
        return found
    try:
        inside = sorted(filter(_is_ours, path.iterdir()))
    except OSError:
        return found  # reading it says why
    return inside or found


def _is_ours(path: Path) -> bool:
    return path.name.endswith(_ENDINGS) or flight_dumps.is_dump(path)


def is_pattern(word: str) -> bool:
    """Return whether a word is a pattern of names of recordings, not a name."""
    return any(char in word for char in _WILD) and not Path(word).exists()


def summary_of(path: str, *, steps: str | None = None, has_environment: bool = False) -> Reduced:
    """Return the summaries of a recording's ranks; if it cannot be used, the reason.

    Workers run this: it raises nothing that is about the file.

    Args:
        path: The recording.
        steps: Name of the ranges that are steps, or a pattern. None detects steps.
        has_environment: Whether summaries have the facts that comparisons are about.
    """
    try:
        if flight_dumps.is_dump(Path(path)):
            return reducing.Reduced([], (), (_dump(path),))
        making = partial(_summarized, path, steps, has_environment=has_environment)
        made = failures.marked("fleet", making)
    except WarplineError as error:
        return _left_out(path, error.message.removeprefix(f"{path}: ").removeprefix(f"{path} "))
    except OSError as error:
        return _left_out(path, error.strerror or str(error))
    if isinstance(made, Skipped):
        return _left_out(path, made.reason)
    if not made:
        return _left_out(path, "no GPU work was recorded")
    return reducing.Reduced([summary.packed(made)], ())


def _summarized(path: str, steps: str | None, *, has_environment: bool) -> list[RankSummary]:
    try:
        run = Run(opened(path), steps)
        made = summarizing.summarize(run)
        return [_with_environment(run, one) for one in made] if has_environment else made
    except MemoryError as error:
        raise InputError("not enough memory", hint="use fewer workers") from error


def _dump(path: str) -> flight_calls.FlightDump:
    try:
        return flight_dumps.read_dump(Path(path))
    except MemoryError as error:
        raise InputError("not enough memory", hint="use fewer workers") from error


def _with_environment(run: Run, made: RankSummary) -> RankSummary:
    has_steps = made.identity.step_source != "none"
    facts = comparison.environment_of(run, has_steps=has_steps)
    return replace(made, identity=replace(made.identity, environment=facts))


def _left_out(path: str, reason: str) -> Reduced:
    return reducing.Reduced([], (LeftOut(path, reason),))


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


def _said_alone(wanted: int | None, recordings: int) -> str:
    if wanted is None and recordings > _FEW and importlib.util.find_spec("distributed") is None:
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
