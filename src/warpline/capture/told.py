"""What a finished recording tells its readers: losses, deaths, damage, and the agents' notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpline.capture.control import Counters
from warpline.capture.ends import Life
from warpline.capture.exits import Exit
from warpline.capture.raw_session import LogFile, RawSession
from warpline.units import plural

INFO, WARNING = 1, 2  # of schema.tables.SEVERITIES
PROCESSES = ("process", "processes")
_MOST = 1 << 61  # what damaged counters add up to must fit a recording
_SHOWN = 3  # processes or logs that are named one by one

# Note in native/raw/warpline_raw.h -> severity and sentence. A fork's note says nothing that the
# log's header does not.
_NOTES = {
    1: (INFO, "NVTX is recorded: {}"),
    2: (WARNING, "NVTX calls of this kind are not recorded: {}"),
    3: (WARNING, "an NVTX extension is not known: {}"),
    4: (INFO, "a text or payload was too long: {}"),
}


@dataclass(frozen=True)
class Diagnostic:
    """A row of the table diagnostic, its time on the monotonic clock."""

    time_ns: int
    severity: int
    text: str
    process: int


@dataclass
class Told:
    """What is told.

    Attributes:
        lost: Events that were dropped, or could not be read.
        more_lost: What else was lost, by what it is.
        truncated: Ranges that were open at an end.
        damaged_logs: Logs that could not be read to their end.
        alive: Processes that still ran.
        unread: Records that this version does not read, by what they are.
        windows: What was recorded of a sampled run, from the origin; None if it was all.
        ends: How processes ended, as `ends.tell_ends` says it.
        warnings: One sentence each.
        diagnostics: The agents' notes.
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
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def warn_of_each(
        self, sentences: Sequence[str], likewise: str, *, of: tuple[str, str] = PROCESSES
    ) -> None:
        """Warn by the first of the sentences, and say how many more there are.

        Args:
            sentences: One for each of some things.
            likewise: What is the same of the rest, such as "ended likewise".
            of: What the things are called, one and many.
        """
        self.warnings += sentences[:_SHOWN]
        if len(sentences) > _SHOWN:
            one, many = of
            more = plural(len(sentences) - _SHOWN, f"more {one}", f"more {many}")
            self.warnings.append(f"{more} {likewise}")

    def add_notes(self, session: RawSession, known: Mapping[int, tuple[int, str]]) -> None:
        """Add the agents' notes of some kinds; warnings among them are told once each.

        Args:
            session: What the logs hold.
            known: Kind of note -> its severity, and the sentence that takes the note's text.
        """
        names = ("time_ns", "kind", "text_id", "process_id")
        columns = (session.facts("note", name) for name in names)
        for time_ns, kind, text, process in zip(*columns, strict=True):
            if kind not in known:
                continue
            severity, sentence = known[kind]
            said = sentence.format(session.text(text) or "?")
            self.diagnostics.append(Diagnostic(time_ns, severity, said, process))
            if severity == WARNING and said not in self.warnings:
                self.warnings.append(said)


def tell(
    session: RawSession,
    logs: Sequence[LogFile],
    counters: Counters | None = None,
    lives: Sequence[Life] = (),
    *,
    was_stopped: bool = False,
) -> Told:
    """Return what there is to tell about a sealed session.

    Args:
        session: What the logs hold.
        logs: The logs.
        counters: What the agents counted, if it is known.
        lives: How the processes ended.
        was_stopped: Whether recording stopped before the program ended.
    """
    told = Told()
    _tell_losses(told, session, counters)
    _tell_damage(told, session, logs)
    _tell_processes(told, session, lives, was_stopped=was_stopped)
    _tell_notes(told, session)
    return told


def _tell_losses(told: Told, session: RawSession, counters: Counters | None) -> None:
    dropped = sum(session.facts("log", "dropped_events"))
    dropped += counters.unlogged_events if counters else 0
    beyond = sum(session.facts("session", "beyond_limits"))
    told.lost = min(dropped + beyond + sum(session.facts("log", "unread_events")), _MOST)
    if dropped and counters and counters.first_error:
        told.warnings.append(f"events were lost because {counters.first_error}")
    if dropped and (not counters or counters.out_of_space or not counters.first_error):
        told.warnings.append(
            "the disk was full, or nearly, while recording; free some space, or record elsewhere"
            " with -o"
        )
    if beyond:
        told.warnings.append(
            f"{plural(beyond, 'event')} did not fit: a table holds 2,147,483,647 rows; record less"
        )
    cut = sum(session.facts("log", "cut_texts"))
    if cut:
        told.warnings.append(
            f"{plural(cut, 'text or payload', 'texts and payloads')} longer than 65,535 bytes"
            f" {'was' if cut == 1 else 'were'} cut or left out"
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
    told.warn_of_each(sentences, "damaged likewise", of=("log", "logs"))


def _damage(log: LogFile, unread_bytes: int, unread_events: int) -> str:
    lost = f", with {plural(unread_events, 'event')} in it" if unread_events else ""
    unread = f"{plural(unread_bytes, 'byte')} of it could not be read"
    return f"the log {log.path.name} is damaged: {unread}{lost}"


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
        f"process {pid} still ran when its log was read: what it did later is not in the recording"
        for pid, _, lives_on, _ in rows
        if lives_on
    ]
    alike = "had some open when recording stopped" if was_stopped else "ended with ranges open"
    told.warn_of_each(died, alike)
    told.warn_of_each(lived, "still ran likewise")


def _is_told(life: Life) -> bool:
    """Return whether a process did not end in order, or recording did before it."""
    return life.cause != "exited" or life.until_ns is not None


def _left_open(life: Life, ranges: str, *, was_stopped: bool) -> str:
    """Say how a process ended, and where the ranges that it had open end."""
    if life.cause == "stopped":
        return f"had {ranges} open when recording stopped"
    if life.cause == "replaced":
        return f"called exec with {ranges} open, cut where its next program was first seen"
    if life.exit is not None:
        return _left_at_exit(life.exit, life, ranges)
    if life.until_ns is not None:
        return f"had {ranges} open when it was last seen alive, cut there"
    how = f"had {ranges} open when it ended or recording stopped" if was_stopped else None
    return f"{how or f'ended abruptly with {ranges} open'}, cut at its last event"


def _left_at_exit(exited: Exit, life: Life, ranges: str) -> str:
    if exited.signal is not None:
        return f"{life.cause_in_words} with {ranges} open, cut at its death"
    if exited.exit_status is not None:
        return f"exited with status {exited.exit_status} and {ranges} open, cut at its end"
    return f"ended abruptly with {ranges} open, cut when it was found to have ended"


def _tell_notes(told: Told, session: RawSession) -> None:
    told.add_notes(session, _NOTES)
    left_out = sum(session.facts("session", "notes_left_out"))
    if left_out:
        told.warnings.append(f"{plural(left_out, 'note')} of the agents left out")
