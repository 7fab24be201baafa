"""Summaries made by the workers of a dask cluster: one of our own, or an existing one.

Each recording is a task. Summaries stay on the workers and are joined there, as a tree. If a worker
dies, dask runs its tasks again on another one, and those whose results died with it. A recording
that workers die of is left out.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any

from warpline import __version__
from warpline.errors import UsageError, WarplineError
from warpline.fleet.reducing import FAN_IN, FIRST, Leaf, Reduced, joined
from warpline.lazy import lazy
from warpline.result.fleet import LeftOut
from warpline.units import plural

distributed: Any = lazy("distributed")
dask: Any = lazy("dask")

_DEATHS = 2  # workers that may die of one recording before it is left out
_CONNECT = "20s"
_PATIENCE_S = 60  # without a finished recording, before it is checked that there are workers
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _DEATHS,
    # A worker has no recording but the one that it reads: if it dies, no other one is suspected.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.daemon": True,
    # Workers keep freed memory of arrays for the next ones, as `warpline` itself does. Returned to
    # the system and cleared again, as dask has it, it takes a third of the time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_MAX_": 0,
    "distributed.admin.tick.limit": "60s",  # reading a large file is not an error of the loop
}
MISSING = UsageError(
    "several workers need dask.distributed",
    hint="pip install 'warpline[cluster]', or use --workers 1",
)


@contextlib.contextmanager
def local(workers: int, *, dashboard: bool = False) -> Iterator[Any]:
    """Run a cluster on this machine, reachable from it alone, and yield its client.

    Args:
        workers: Number of processes, with one thread each.
        dashboard: Whether to serve dask's dashboard, on the loopback interface.
    """
    with (
        tempfile.TemporaryDirectory(prefix="warpline-fleet-") as folder,
        _quiet(),
        dask.config.set(_SETTINGS),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            # Also without a dashboard, dask serves its state by HTTP.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": dashboard},
            local_directory=folder,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextlib.contextmanager
def existing(address: str) -> Iterator[Any]:
    """Connect to the scheduler at an address and yield a client.

    Raises:
        UsageError: There is no scheduler, or its workers have another version of Warpline.
    """
    with _quiet(), dask.config.set({"distributed.comm.timeouts.connect": _CONNECT}):
        try:
            client = distributed.Client(address, timeout=_CONNECT)
        except (OSError, ValueError, TimeoutError) as error:
            raise UsageError(
                f"no dask scheduler at {address}", hint="tcp://HOST:PORT, as dask scheduler prints"
            ) from error
        with client:
            _check(client, address)
            yield client


def _check(client: Any, address: str) -> None:
    """Raise UsageError if a worker lacks this version of Warpline."""
    if not client.scheduler_info(n_workers=-1)["workers"]:
        raise UsageError(f"the scheduler at {address} has no workers", hint="start dask workers")
    # A worker that dies meanwhile answers with an OSError: the others read its recordings.
    answers = list(client.run(_version, on_error="return").values())
    foreign = [one for one in answers if isinstance(one, ImportError | AttributeError)]
    if foreign:
        raise UsageError(
            f"workers of {address} cannot import warpline: {foreign[0]}",
            hint="install the same version of Warpline on all workers",
        )
    versions = {str(one) for one in answers if not isinstance(one, OSError)}
    if not versions:
        raise UsageError(f"the scheduler at {address} has no workers", hint="start dask workers")
    if versions != {__version__}:
        raise UsageError(
            f"workers have warpline {', '.join(sorted(versions))}, this is {__version__}",
            hint="install the same version of Warpline on all workers",
        )


def _version() -> str:
    return __version__


def reduced(
    client: Any,
    paths: Sequence[str],
    leaf: Leaf,
    advance: Callable[[int], None],
    first: Callable[[Reduced], None] | None = None,
) -> Reduced:
    """Return the summaries of recordings, made by the workers of a client.

    Args:
        client: From `local` or `existing`.
        paths: The recordings, by names that workers can open.
        leaf: Reduces one of them: a function of a module, with arguments bound by `partial`.
        advance: Called with the number of recordings that became ready.
        first: Called with the summaries of the first `FIRST` recordings.

    Raises:
        WarplineError: The scheduler is gone.
    """
    try:
        return _reduced(client, paths, leaf, advance, first)
    except (OSError, CancelledError) as error:
        raise WarplineError(
            "lost the connection to the dask scheduler", hint="see its log, and run this again"
        ) from error


def _reduced(
    client: Any,
    paths: Sequence[str],
    leaf: Leaf,
    advance: Callable[[int], None],
    first: Callable[[Reduced], None] | None,
) -> Reduced:
    tasks = {
        client.submit(leaf, path, pure=False, key=f"rank-{place}-{id(paths)}"): path
        for place, path in enumerate(paths)
    }
    done, left_out = [], []
    for task in _finished(client, tasks):
        if task.status == "finished":
            done.append(task)
        else:
            left_out.append(LeftOut(tasks[task], _reason(task)))
        advance(1)
        if first is not None and len(done) == FIRST:
            first(joined(client.gather(done, errors="skip")))
            first = None
    tasks.clear()  # a worker frees a summary once it is joined, as nothing else refers to it
    return joined((_tree(client, done), Reduced([], tuple(left_out))))


def _finished(client: Any, tasks: Iterable[Any]) -> Iterator[Any]:
    """Yield tasks as they finish or fail.

    Raises:
        WarplineError: There are no workers any more.
    """
    done: SimpleQueue[Any] = (
        SimpleQueue()
    )  # `distributed.wait` takes longer the more tasks there are
    pending = 0
    for task in tasks:
        task.add_done_callback(done.put)
        pending += 1
    while pending:
        try:
            task = done.get(timeout=_PATIENCE_S)
        except Empty as error:
            if not client.scheduler_info(n_workers=-1)["workers"]:
                raise WarplineError(
                    "the cluster has no workers any more",
                    hint="start workers that restart (without --no-nanny), and run this again",
                ) from error
            continue
        if task.status not in ("finished", "error"):
            raise CancelledError(task.status)
        pending -= 1
        yield task


def _tree(client: Any, parts: list[Any]) -> Reduced:
    """Return the parts, joined by the workers, `FAN_IN` at a time, and then here.

    The joined parts arrive one after another: in one message, a large job would be in memory twice.

    Args:
        client: The client.
        parts: What the workers made; emptied, so that they free it.
    """
    level = [
        client.submit(joined, parts[low : low + FAN_IN], pure=False)
        for low in range(0, len(parts), FAN_IN)
    ]
    parts.clear()
    level.reverse()
    return joined([level.pop().result() for _ in range(len(level))])


def _reason(task: Any) -> str:
    """Return why a task failed, in one line."""
    error = task.exception()
    if isinstance(error, distributed.scheduler.KilledWorker):
        return f"{plural(_DEATHS + 1, 'worker')} died while reading it: out of memory, or a crash"
    if isinstance(error, WarplineError):
        return error.message
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep dask's messages off the terminal: what matters is in the answer."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "bokeh")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
