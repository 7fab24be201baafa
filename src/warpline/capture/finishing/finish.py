"""Convert the logs of a session to a recording.

It runs in a separate process (`__main__`), so that the launcher's memory stays small. Logs of
running processes are read up to their size at that moment.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing import (
    code_tables,
    counter_tables,
    cpu_tables,
    cuda_tables,
    health_tables,
    metric_tables,
    pc_tables,
    pytorch_tables,
)
from warpline.capture.finishing.clock import Clock
from warpline.capture.finishing.draft import Draft, Progress
from warpline.capture.finishing.ends import Life, lives_of, tell_ends
from warpline.capture.finishing.raw_session import LogFile, RawSession, log_files
from warpline.capture.finishing.samples import find_samples
from warpline.capture.finishing.told import Told, tell
from warpline.capture.session.control import ControlFile, Counters
from warpline.capture.session.facts import FACTS_NAME, Facts, read_facts, texts_of, time_of
from warpline.capture.session.session import is_full
from warpline.errors import CaptureError
from warpline.units import format_ns

_DECODING = 0.6  # the share of decoding in the progress


@dataclass(frozen=True)
class Finished:
    """The result of finishing a session.

    Attributes:
        output: The recording.
        processes, threads, ranges, marks, payloads, diagnostics, kernels, cuda_calls,
            counted_kernels, counter_values, pc_samples: Rows of its tables.
        is_empty: Whether nothing that a program did was recorded, by any collector.
        lost: Events that were dropped while recording, or could not be read.
        truncated: Ranges that were open when their process, or recording, ended.
        damaged_logs: Logs that could not be read completely.
        alive: Processes that were still running.
        bytes: Size of the recording.
        seconds: Duration of finishing.
        warnings: The recording's warnings, without the count of dropped events.
        unrecorded: Why the events of an API could not be recorded, with the next action.
        not_chosen: Why processes counted no launch, each with a tab and the next action.
    """

    output: str
    processes: int
    threads: int
    ranges: int
    marks: int
    payloads: int
    diagnostics: int
    kernels: int
    cuda_calls: int
    counted_kernels: int
    counter_values: int
    pc_samples: int
    is_empty: bool
    lost: int
    truncated: int
    damaged_logs: int
    alive: int
    bytes: int
    seconds: float
    warnings: tuple[str, ...]
    unrecorded: tuple[str, ...]
    not_chosen: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the recording has all data of the logs, so that they may be deleted."""
        return self.damaged_logs == 0 and self.alive == 0


def finish(
    folder: Path,
    output: Path,
    *,
    progress: Progress | None = None,
    costs: Mapping[str, float] | None = None,
) -> Finished:
    """Convert the logs of a session to a recording.

    Args:
        folder: The session directory; it is not changed.
        output: The recording; it replaces an existing file once it is complete.
        progress: Called with the completed fraction, from 0 to 1.
        costs: The agent's overhead by table, from `cost.measure`; None if unknown.

    Raises:
        CaptureError: The directory is not a session, or the recording cannot be written.
    """
    began = time.perf_counter()
    progress = progress or _silent
    logs = log_files(folder)
    facts, complaints = _facts(folder, logs)
    with RawSession(logs) as session:
        session.decode(lambda part: progress(part * _DECODING))
        lives = lives_of(session, logs, facts, folder)
        clock = Clock.of(facts, session, logs, lives)
        for process, life in enumerate(lives):
            if life.until_ns is not None:
                session.end_process(process, life.until_ns)
        session.seal(clock.origin_ns, clock.end_ns)
        counters = _counters(folder)
        was_stopped = time_of(facts, "stopped_monotonic_ns") is not None
        was_ended = time_of(facts, "ended_monotonic_ns") is not None
        told = tell(session, logs, counters, lives, was_stopped=was_stopped, was_ended=was_ended)
        told.ends = tell_ends(session, lives, facts, clock.origin_ns)
        cuda_tables.tell_cuda(told, session)
        counter_tables.tell_counters(told, session)
        pc_tables.tell_samples(told, session)
        cpu_tables.tell_cpu(told, session, facts, logs)
        told.warnings[:0] = [*complaints, *texts_of(facts.get("notes"))]
        _tell_kept(told, facts, clock)
        told.windows = _tell_samples(told, session, facts, clock, counters, lives)
        kept_ns = time_of(facts, "kept_from_monotonic_ns")
        made = health_tables.make_health(folder, session, told, clock.origin_ns, kept_ns or 0)
        made |= metric_tables.make_metrics(folder, session, told, clock.origin_ns)
        made |= pytorch_tables.make_pytorch(folder, session, facts, told)
        made |= code_tables.make_code(folder, session, facts, told.warnings)
        draft = Draft(session, facts, clock, told, costs or {}, made)
        try:
            draft.write(output, lambda part: progress(_DECODING + part * (1 - _DECODING)))
        except OSError as error:
            raise CaptureError(
                f"cannot write {output}: {error.strerror or error}",
                hint=f"{'free some space, then ' if is_full(error) else ''}run warpline recover"
                f" {folder}; add -o FILE to write to another directory",
            ) from error
        rows = draft.rows
    return Finished(
        output=str(output),
        processes=rows["process"],
        threads=rows["thread"],
        ranges=rows["range"],
        marks=rows["mark"],
        payloads=rows["range_payload"],
        diagnostics=rows["diagnostic"],
        kernels=rows["kernel"],
        cuda_calls=rows["api_call"],
        counted_kernels=rows["profiled_kernel"],
        counter_values=rows["kernel_metric"],
        pc_samples=rows["pc_sample"],
        is_empty=draft.is_empty,
        lost=told.lost + sum(told.more_lost.values()),
        truncated=told.truncated,
        damaged_logs=told.damaged_logs,
        alive=told.alive,
        bytes=output.stat().st_size,
        seconds=round(time.perf_counter() - began, 3),
        warnings=tuple(told.warnings),
        unrecorded=tuple(cause.reason for cause in told.unrecorded),
        not_chosen=tuple(told.not_chosen),
    )


def _tell_kept(told: Told, facts: Facts, clock: Clock) -> None:
    """Add the sentence about what was removed while recording."""
    kept_ns = time_of(facts, "kept_from_monotonic_ns")
    if kept_ns is not None and kept_ns > clock.origin_ns:
        begin_ns, end_ns = clock.span_ns
        kept, whole = format_ns(end_ns - begin_ns), format_ns(end_ns)
        told.warnings.insert(0, f"the last {kept} of {whole} are recorded (--keep-last)")


def _tell_samples(
    told: Told,
    session: RawSession,
    facts: Facts,
    clock: Clock,
    counters: Counters | None,
    lives: Sequence[Life],
) -> tuple[tuple[int, int], ...] | None:
    """Add the sentence about a sampled run; return its windows, None if all of it was recorded."""
    found = find_samples(
        session,
        facts,
        counters,
        origin_ns=clock.origin_ns,
        span_ns=clock.span_ns,
        lived_until_ns=[life.until_ns for life in lives],
    )
    if found is None:
        return None
    if found.sentence is not None:
        told.warnings.insert(0, found.sentence)
    return found.windows


def _facts(folder: Path, logs: Sequence[LogFile]) -> tuple[dict[str, Any], list[str]]:
    """Return the content of session.json, and warnings if it cannot be read.

    Raises:
        CaptureError: There is neither session.json nor a log.
    """
    try:
        return read_facts(folder), []
    except CaptureError as error:
        if not logs:
            raise CaptureError(
                f"{folder} is not an unfinished recording: it has no {FACTS_NAME} and no log",
                hint="name a directory that ends in .raw",
            ) from error
        # Recordings are shared: leave out the directory's path.
        said = error.message.replace(f"{folder}{os.sep}", "")
        return {}, [f"{said}; command and options are unknown"]


def _counters(folder: Path) -> Counters | None:
    """Return the agents' counters, or None if they cannot be read."""
    try:
        control = ControlFile.open(folder)
    except (CaptureError, OSError, ValueError, struct.error):
        return None
    counters = control.counters()
    control.close()
    return counters


def _silent(part: float) -> None:
    pass
