"""CPU samples and context switches of a recording, and the warnings about missing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpline.capture.finishing.raw_session import LogFile, RawSession
from warpline.capture.finishing.told import WARNING, Told, notes_of
from warpline.capture.session.facts import Facts
from warpline.capture.session.raw_numbers import CudaNote
from warpline.units import plural

# What a session collects -> the table of it.
_TABLES = {
    "cpu samples": "cpu_sample",
    "context switches": "sched_event",
    "python samples": "python_sample",
}

# Of timers within the program.
_NOTES: Mapping[int, tuple[int, str]] = {
    CudaNote.NO_CPU_SAMPLES: (WARNING, "CPU samples end early: {}"),
}
_MOST_DIGITS = 16
_MOST_BARE = 0.1  # of the samples in Python code, without Python frames


def recorded(facts: Facts) -> list[str]:
    """Return the tables that a session recorded, including empty ones."""
    collected = facts.get("collected")
    names = collected if isinstance(collected, list) else ()
    return [table for name, table in _TABLES.items() if name in names]


def tell_cpu(told: Told, session: RawSession, facts: Facts, logs: Sequence[LogFile]) -> None:
    """Add the warnings about CPU samples."""
    told.add_notes(session, _NOTES)
    dropped = sum(
        int(text)
        for _, _, text, _ in notes_of(session, (CudaNote.CPU_SAMPLES_DROPPED,))
        if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS
    )
    if dropped:
        told.more_lost["CPU samples"] = dropped
        told.warnings.append(
            f"{plural(dropped, 'CPU sample')} dropped: the machine was too busy; sample less often"
            " with --sampling-frequency"
        )
    found = facts.get("cpu_sampler")
    # It counts what it did when it has written all.
    if found == {} and any(log.is_from_outside for log in logs):
        told.warnings.append(
            "CPU samples, context switches and Python samples end early: the process that takes"
            " them was killed, or too slow to write the last ones"
        )
    tell_sampler(told, found if isinstance(found, dict) else {})


def tell_sampler(told: Told, counts: Mapping[str, Any]) -> None:
    """Add the warnings about what the sampling process did, by its counts."""
    lost = counts.get("lost")
    if type(lost) is int and lost > 0:
        told.more_lost["CPU samples or context switches"] = lost
        told.warnings.append(
            f"{plural(lost, 'CPU sample or context switch', 'CPU samples or context switches')}"
            " dropped: the machine was too busy; sample less often with --sampling-frequency"
        )
    bare, in_python = counts.get("python_unmatched"), counts.get("python_samples")
    if type(bare) is int and type(in_python) is int and bare > _MOST_BARE * in_python:
        told.warnings.append(
            f"{bare / in_python:.0%} of the CPU samples in Python code have no Python frames, which"
            " could not be read in time: lines are those of the others"
        )
    if counts.get("samples") and counts.get("has_kernel") is False:
        told.warnings.append(
            "CPU samples exclude time in the kernel; perf_event_paranoid 1 or CAP_PERFMON includes"
            " it"
        )
