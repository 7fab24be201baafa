"""Warnings and diagnostics of a recording: dropped events, crashes, damage, agents' notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpline.capture.finishing.ends import Cause, Life
from warpline.capture.finishing.raw_session import LogFile, RawSession
from warpline.capture.session.control import Counters
from warpline.capture.session.exits import Exit
from warpline.capture.session.raw_numbers import Note
from warpline.schema.unrecorded import Unrecorded
from warpline.units import plural

INFO, WARNING = 1, 2  # of schema.labels.SEVERITIES
PROCESSES = ("process", "processes")
_MOST = 1 << 61  # limit for sums of damaged counters, so that they fit a recording
_SHOWN = 3  # processes or logs to list individually

# Severity and sentence. A fork's note is left out: the log's header has the same facts.
_NOTES: Mapping[int, tuple[int, str]] = {
    Note.NVTX_BOUND: (INFO, "NVTX is recorded: {}"),
    Note.NVTX_UNKNOWN_CALL: (WARNING, "NVTX calls of this kind are not recorded: {}"),
    Note.PAYLOAD_UNKNOWN: (WARNING, "unknown NVTX extension: {}"),
    Note.TOO_LONG: (INFO, "text or payload truncated or dropped: {}"),
}


@dataclass(frozen=True)
class Diagnostic:
    """A row of the diagnostic table; its time is on the monotonic clock."""

    time_ns: int
    severity: int
    text: str
    process: int


@dataclass
class Told:
    """Warnings, diagnostics and counts of a recording.

    Attributes:
        lost: Events that were dropped or could not be read.
        more_lost: Other missing records, by kind.
        truncated: Ranges without a recorded end.
        damaged_logs: Logs that could not be read completely.
        alive: Processes that were still running.
        unread: Records that this version cannot read, by kind.
        windows: The recorded time intervals of a sampled run, from the origin; None if all of it.
        ends: How processes ended, from `ends.tell_ends`.
        warnings: One sentence each.
        unrecorded: Why the events of an API are missing; each is a warning, too.
        diagnostics: The agents' notes.
        not_chosen: Why processes counted no kernel launch.
    """

    lost: int = 0
    more_lost: dict[str, int] = field(default_factory=dict)
    truncated: int = 0
    damaged_logs: int = 0
    alive: int = 0
    unread: dict[str, int] = field(default_factory=dict)
    windows: tuple[tuple[int, int], ...] | None = None
    ends: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unrecorded: list[Unrecorded] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    not_chosen: list[str] = field(default_factory=list)

    def warn_of_each(
        self, sentences: Sequence[str], likewise: str, *, of: tuple[str, str] = PROCESSES
    ) -> None:
        """Add the first sentences as warnings, and a count of the others.

        Args:
            sentences: One for each process or log.
            likewise: The end of the sentence that counts the others, such as "damaged".
            of: The noun for that count, singular and plural.
        """
        self.warnings += sentences[:_SHOWN]
        if len(sentences) > _SHOWN:
            one, many = of
            more = plural(len(sentences) - _SHOWN, f"more {one}", f"more {many}")
            self.warnings.append(f"{more} {likewise}")

    def add_notes(self, session: RawSession, known: Mapping[int, tuple[int, str]]) -> None:
        """Add the agents' notes of given kinds; equal warnings are added once.

        Args:
            session: The decoded logs.
            known: Kind of note -> severity, and a sentence with a placeholder for the note's text.
        """
        for time_ns, kind, text, process in notes_of(session, known):
            severity, sentence = known[kind]
            self.add(Diagnostic(time_ns, severity, sentence.format(text), process))

    def add(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic; if it is a warning, the sentence too, unless it is there."""
        self.diagnostics.append(diagnostic)
        if diagnostic.severity == WARNING and diagnostic.text not in self.warnings:
            self.warnings.append(diagnostic.text)

    def add_unrecorded(
        self,
        session: RawSession,
        api: str,
        kinds: Collection[int],
        reword: Callable[[str], str] = str,
    ) -> None:
        """Add the agents' notes of given kinds as causes of missing events of an API.

        Args:
            session: The decoded logs.
            api: The API, such as ``cuda``.
            kinds: Kinds of notes.
            reword: What the text of a note is replaced with.
        """
        for time_ns, _, text, process in notes_of(session, kinds):
            cause = Unrecorded.from_note(api, reword(text))
            self.add(Diagnostic(time_ns, WARNING, cause.text, process))
            if cause not in self.unrecorded:
                self.unrecorded.append(cause)


def notes_of(session: RawSession, kinds: Collection[int]) -> Iterator[tuple[int, int, str, int]]:
    """Yield the agents' notes of given kinds: time in ns, kind, text and process."""
    names = ("time_ns", "kind", "text_id", "process_id")
    columns = (session.facts("note", name) for name in names)
    for time_ns, kind, text, process in zip(*columns, strict=True):
        if kind in kinds:
            yield time_ns, kind, session.text(text) or "?", process


def tell(
    session: RawSession,
    logs: Sequence[LogFile],
    counters: Counters | None = None,
    lives: Sequence[Life] = (),
    *,
    was_stopped: bool = False,
    was_ended: bool = True,
) -> Told:
    """Return the warnings, diagnostics and counts of a sealed session.

    Args:
        session: The decoded logs.
        logs: The log files.
        counters: The agents' counters, if known.
        lives: How the processes ended.
        was_stopped: Whether recording stopped before the program ended.
        was_ended: Whether the launcher saw the end, and was not killed before.
    """
    told = Told()
    _tell_losses(told, session, counters)
    _tell_damage(told, session, logs)
    if not was_ended:
        _tell_unwritten(told, session, logs)
    _tell_processes(told, session, lives, was_stopped=was_stopped)
    _tell_notes(told, session)
    return told


def _tell_losses(told: Told, session: RawSession, counters: Counters | None) -> None:
    dropped = sum(session.facts("log", "dropped_events"))
    dropped += counters.unlogged_events if counters else 0
    beyond = sum(session.facts("session", "beyond_limits"))
    told.lost = min(dropped + beyond + sum(session.facts("log", "unread_events")), _MOST)
    if dropped and counters and counters.first_error:
        told.warnings.append(f"events were dropped: {counters.first_error}")
    if dropped and (not counters or counters.out_of_space or not counters.first_error):
        told.warnings.append(
            "events were dropped because the disk was full or nearly full: free some space, or use"
            " -o to record to another disk"
        )
    if beyond:
        told.warnings.append(
            f"{plural(beyond, 'event')} dropped: a table is limited to 2,147,483,647 rows; record"
            " a shorter part of the run"
        )
    cut = sum(session.facts("log", "cut_texts"))
    if cut:
        told.warnings.append(
            f"{plural(cut, 'text or payload', 'texts and payloads')} longer than 65,535 bytes"
            f" {'was' if cut == 1 else 'were'} truncated or dropped"
        )
    foreign = sum(session.facts("session", "foreign_records"))
    if foreign:
        told.unread["records of a newer agent"] = foreign


def _tell_damage(told: Told, session: RawSession, logs: Sequence[LogFile]) -> None:
    unread = session.facts("log", "unread_bytes")
    events = session.facts("log", "unread_events")
    damaged = [place for place, is_so in enumerate(session.facts("log", "is_damaged")) if is_so]
    told.damaged_logs = len(damaged)
    sentences = [_damage(logs[place], unread[place], events[place]) for place in damaged]
    told.warn_of_each(sentences, "damaged", of=("log", "logs"))


def _tell_unwritten(told: Told, session: RawSession, logs: Sequence[LogFile]) -> None:
    """Add a warning if there are logs that were made and not written.

    Their processes ended right then, which happens whenever a process lives for milliseconds. But
    after a crash of the machine, a log that was written may look the same.
    """
    is_damaged = session.facts("log", "is_damaged")
    unwritten = sum(not log.pid and not is_so for log, is_so in zip(logs, is_damaged, strict=True))
    if unwritten:
        told.warnings.append(
            f"{plural(unwritten, 'log')} without content, from processes that ended before they"
            " recorded anything, or lost if the machine crashed"
        )


def _damage(log: LogFile, unread_bytes: int, unread_events: int) -> str:
    lost = f" with {plural(unread_events, 'event')}" if unread_events else ""
    return f"log {log.path.name} is damaged: {plural(unread_bytes, 'byte')}{lost} could not be read"


def _tell_processes(
    told: Told, session: RawSession, lives: Sequence[Life], *, was_stopped: bool
) -> None:
    truncated = session.facts("process", "truncated")
    alive = session.facts("process", "is_alive")
    told.truncated, told.alive = sum(truncated), sum(alive)
    pids = session.facts("process", "pid")
    rows = list(zip(pids, truncated, alive, lives, strict=True))
    died = [
        f"process {pid} {_left_open(life, plural(count, 'range'), was_stopped=was_stopped)}"
        for pid, count, lives_on, life in rows
        if count and not lives_on and _is_told(life)
    ]
    lived = [
        f"process {pid} was still running when its log was read: later events are not recorded"
        for pid, _, lives_on, _ in rows
        if lives_on and not was_stopped
    ]
    alike = "had ranges open when recording stopped" if was_stopped else "ended with ranges open"
    told.warn_of_each(died, alike)
    told.warn_of_each(lived, "were still running")


def _is_told(life: Life) -> bool:
    """Return whether a process ended abnormally, or after recording stopped."""
    return life.cause is not Cause.EXITED or life.until_ns is not None


def _left_open(life: Life, ranges: str, *, was_stopped: bool) -> str:
    """Describe how a process ended and where its open ranges are cut."""
    if life.cause is Cause.STOPPED:
        return f"had {ranges} open when recording stopped"
    if life.cause is Cause.REPLACED:
        return f"called exec with {ranges} open, cut where its next program was first recorded"
    if life.exit is not None:
        return _left_at_exit(life.exit, life, ranges)
    if life.until_ns is not None:
        return f"had {ranges} open when last seen running, cut there"
    how = f"had {ranges} open when it ended or recording stopped" if was_stopped else None
    return f"{how or f'ended abruptly with {ranges} open'}, cut at its last event"


def _left_at_exit(exited: Exit, life: Life, ranges: str) -> str:
    if exited.signal is not None:
        return f"{life.cause_in_words} with {ranges} open, cut at its death"
    if exited.exit_status is not None:
        return f"exited with status {exited.exit_status} and {ranges} open, cut at its end"
    return f"ended abruptly with {ranges} open, cut when its end was detected"


def _tell_notes(told: Told, session: RawSession) -> None:
    told.add_notes(session, _NOTES)
    left_out = sum(session.facts("session", "notes_left_out"))
    if left_out:
        told.warnings.append(f"{plural(left_out, 'diagnostic')} dropped")
