"""CUDA tables of a recording, and the warnings about missing CUDA records."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import INFO, WARNING, Told
from warpline.capture.session.raw_numbers import CUDA_TABLES, CudaNote
from warpline.capture.session.raw_numbers import CudaCollects as Collects
from warpline.units import plural

CUDA = "cuda"
DIMENSIONS = ("device", "context", "stream")

TABLES = (*CUDA_TABLES, *DIMENSIONS, "device_attribute", "stack", "frame")

# The default, for when no process got far enough to log its own.
_DEFAULT = (
    Collects.CALLS
    | Collects.KERNELS
    | Collects.COPIES
    | Collects.FILLS
    | Collects.GRAPH_NODES
    | Collects.TARGETS
    | Collects.OVERHEAD
)

# GPU work that calls launch, by name in the facts: singular and plural.
_WORK: Mapping[str, tuple[str, str]] = {
    "kernels": ("kernel", "kernels"),
    "graphs": ("CUDA graph launch", "CUDA graph launches"),
    "copies": ("copy", "copies"),
    "fills": ("memset", "memsets"),
}

# CUDA was not recorded.
_UNAVAILABLE = (CudaNote.UNAVAILABLE, CudaNote.OTHER_PROFILER)
# Others -> severity and sentence.
_NOTES: Mapping[int, tuple[int, str]] = {
    CudaNote.USING: (INFO, "CUDA is recorded through {}"),
    CudaNote.DOUBT: (WARNING, "CUDA is recorded, but {}"),
    CudaNote.KIND_FAILED: (WARNING, "CUDA is recorded in part: {}"),
    CudaNote.NO_PYTHON_STACKS: (WARNING, "Python backtraces are not recorded: {}"),
    CudaNote.NO_LIBRARY_CALLS: (WARNING, "library calls are not recorded, or not all: {}"),
    CudaNote.SHARED: (INFO, "CUPTI is shared with {}"),
}


def recorded(session: RawSession, *, is_asked_for: bool) -> list[str]:
    """Return the CUDA tables of a sealed session, including empty ones.

    A recorded table is present even without rows: there were no such events. A table that was not
    recorded is absent.

    Args:
        session: The decoded logs.
        is_asked_for: Whether CUDA tracing was requested.
    """
    said = 0
    for mask in session.facts("cuda", "collected"):
        said |= mask
    if not said and is_asked_for and not {*session.facts("note", "kind")} & set(_UNAVAILABLE):
        said = _DEFAULT
    tables = [name for name, bits in CUDA_TABLES.items() if said & bits or session.rows(name)]
    is_any = bool(tables) or any(session.rows(name) for name in DIMENSIONS)
    return [*tables, *DIMENSIONS] if is_any else []


def tell_cuda(told: Told, session: RawSession) -> None:
    """Add the warnings about CUDA in a sealed session; a missing CUDA trace comes first."""
    others, told.warnings = told.warnings, []
    told.add_unrecorded(session, CUDA, _UNAVAILABLE)
    told.warnings += others
    _tell_dropped(told, session)
    _tell_missing(told, session)
    _tell_peer_copies(told, session)
    told.add_notes(session, _NOTES)


def _tell_dropped(told: Told, session: RawSession) -> None:
    dropped = sum(session.facts("cuda", "dropped"))
    if dropped:
        told.more_lost["CUDA records"] = dropped
        told.warnings.append(
            f"CUPTI dropped {plural(dropped, 'record')} because its buffers were full: record a"
            " shorter part of the run"
        )
    untimed = sum(session.facts("cuda", "without_time"))
    if untimed:
        told.more_lost["CUDA records without a time"] = untimed
        told.warnings.append(
            f"CUPTI returned {plural(untimed, 'GPU record')} without timestamps, not in the"
            " recording"
        )
    beyond = sum(session.facts("cuda_session", "beyond_limits"))
    if beyond:
        told.more_lost["CUDA records beyond 2,147,483,647 rows"] = beyond


def _tell_peer_copies(told: Told, session: RawSession) -> None:
    """Warn about peer copies, which graph-level tracing excludes, if there are several GPUs."""
    is_whole = any(mask & Collects.GRAPHS for mask in session.facts("cuda", "collected"))
    if is_whole and session.rows("device") > 1:
        told.warnings.append(
            "copies between GPUs are not recorded with --cuda-graph-trace=graph; use"
            " --cuda-graph-trace=node"
        )


def _tell_missing(told: Told, session: RawSession) -> None:
    """Warn about successful calls whose GPU work has no record."""
    missing = [session.facts("cuda", f"missing_{name}") for name in _WORK]
    lives = [session.facts("process", name) for name in ("pid", "is_closed", "is_alive")]
    dropped = session.facts("cuda", "dropped")
    killed, unfinished = [], []
    lost = dict.fromkeys(_WORK, 0)
    for row, (pid, closed, alive) in enumerate(zip(*lives, strict=True)):
        counts = {name: column[row] for name, column in zip(_WORK, missing, strict=True)}
        # A running process has a warning of its own.
        if alive or not any(counts.values()):
            continue
        what = f"{_counted(counts)} of process {pid}"
        has, them = ("has", "it") if sum(counts.values()) == 1 else ("have", "them")
        if not closed:
            killed.append(f"{what} {has} no record because the process was killed")
            lost = {name: lost[name] + count for name, count in counts.items()}
        elif not dropped[row]:
            unfinished.append(f"{what} {has} no record because recording ended before {them}")
    told.more_lost.update({_WORK[name][1]: count for name, count in lost.items() if count})
    told.warn_of_each(killed, "killed before all GPU records were flushed")
    told.warn_of_each(unfinished, "with GPU work after the end of recording")


def _counted(counts: Mapping[str, int]) -> str:
    parts = [plural(count, *_WORK[name]) for name, count in counts.items() if count]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
