"""Tables of hardware counters of a recording, and the warnings about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.told import INFO, WARNING, Diagnostic, Told, notes_of
from warpline.capture.machine.obstacles import known_obstacle
from warpline.capture.session.raw_numbers import CudaNote
from warpline.units import plural

COUNTERS = "counters"  # what session.json calls them, among what is collected
TABLES = ("profiled_kernel", "kernel_metric")

_UNAVAILABLE = (CudaNote.NO_COUNTERS,)
_NOTES: Mapping[int, tuple[int, str]] = {
    CudaNote.COUNTERS: (INFO, "hardware counters are collected: {}"),
    CudaNote.CLOCKS_LOCKED: (INFO, "the clocks of GPU {} were locked, for all programs on it"),
    CudaNote.COUNTERS_DOUBT: (WARNING, "hardware counters are collected, but {}"),
}


def recorded(session: RawSession, *, is_asked_for: bool) -> list[str]:
    """Return the tables of counters of a sealed session.

    Both are present if a kernel was counted, or if counters could have been collected and no
    kernel was launched.

    Args:
        session: The decoded logs.
        is_asked_for: Whether counters were requested.
    """
    could_be = is_asked_for and not has_failed(session, _UNAVAILABLE)
    return [*TABLES] if session.rows("profiled_kernel") or could_be else []


def has_failed(session: RawSession, kinds: Collection[int]) -> bool:
    """Return whether a note of one of these kinds says that something could not be recorded."""
    return not {*session.facts("note", "kind")}.isdisjoint(kinds)


def tell_counters(told: Told, session: RawSession) -> None:
    """Add the warnings about counters in a sealed session; missing counters come first."""
    others, told.warnings = told.warnings, []
    told.add_unrecorded(session, COUNTERS, _UNAVAILABLE, cause_and_cure)
    told.warnings += others
    failed = sum(session.facts("cuda_session", "failed_launches"))
    if failed:
        launches = plural(failed, "kernel launch", "kernel launches")
        told.warnings.append(f"no counters for {launches}: the profiler failed")
    lost = sum(session.facts("cuda_session", "lost_values"))
    if lost:
        told.more_lost["counter values without a kernel launch"] = lost
    told.add_notes(session, _NOTES)
    for _, _, text, _ in notes_of(session, (CudaNote.NOT_CHOSEN,)):
        if text not in told.not_chosen:
            told.not_chosen.append(text)
    _tell_clocks(told, session)


def _tell_clocks(told: Told, session: RawSession) -> None:
    """Add a warning for each process that ended before it unlocked the clocks of its GPU."""
    pids = session.facts("process", "pid")
    locked = {
        process: (time_ns, gpu)
        for time_ns, _, gpu, process in notes_of(session, (CudaNote.CLOCKS_LOCKED,))
    }
    unlocks = list(notes_of(session, (CudaNote.CLOCKS_UNLOCKED,)))
    for process, (time_ns, gpu) in locked.items():
        if any(of == process and since_ns >= time_ns for since_ns, _, _, of in unlocks):
            continue
        text = (
            f"process {pids[process]} ended without unlocking the clocks of GPU {gpu}: run sudo"
            " nvidia-smi --reset-gpu-clocks"
        )
        told.add(Diagnostic(time_ns, WARNING, text, process))


def cause_and_cure(text: str) -> str:
    """Return a note with the words for CUPTI's result, if it has one, and those are known."""
    said, _, result = text.rpartition("\t")
    if not result.isdecimal():
        return text
    known = known_obstacle(int(result))
    return said if known is None else f"{known.cause}\t{known.cure}"
