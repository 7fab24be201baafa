"""What a finished recording tells its readers: losses, deaths, damage, and the agents' notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpline.capture.control import Counters
from warpline.capture.raw_session import LogFile, RawSession
from warpline.units import plural

_INFO, _WARNING = 1, 2  # of schema.tables.SEVERITIES
_MOST = 1 << 61  # what damaged counters add up to must fit a recording
_SHOWN = 3  # processes or logs that are named one by one

# Note in native/raw/warpline_raw.h -> severity and sentence. A fork's note says nothing that the
# log's header does not.
_NOTES = {
    1: (_INFO, "NVTX is recorded: {}"),
    2: (_WARNING, "NVTX calls of this kind are not recorded: {}"),
    3: (_WARNING, "an NVTX extension is not known: {}"),
    4: (_INFO, "a text or payload was too long: {}"),
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
    warnings: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def tell(
    session: RawSession,
    logs: Sequence[LogFile],
    counters: Counters | None = None,
    *,
    was_stopped: bool = False,
) -> Told:
    """Return what there is to tell about a sealed session.

    Args:
        session: What the logs hold.
        logs: The logs.
        counters: What the agents counted, if it is known.
        was_stopped: Whether recording stopped before the program ended.
    """
    told = Told()
    _tell_losses(told, session, counters)
    _tell_damage(told, session, logs)
    _tell_processes(told, session, was_stopped=was_stopped)
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
    for place in damaged[:_SHOWN]:
        lost = f", with {plural(events[place], 'event')} in it" if events[place] else ""
        told.warnings.append(
            f"the log {logs[place].path.name} is damaged:"
            f" {plural(unread[place], 'byte')} of it could not be read{lost}"
        )
    if len(damaged) > _SHOWN:
        told.warnings.append(f"{plural(len(damaged) - _SHOWN, 'more log')} damaged likewise")


def _tell_processes(told: Told, session: RawSession, *, was_stopped: bool) -> None:
    truncated = session.facts("process", "truncated")
    alive = session.facts("process", "is_alive")
    closed = session.facts("process", "is_closed")
    told.truncated, told.alive = sum(truncated), sum(alive)
    pids = session.facts("process", "pid")
    rows = list(zip(pids, truncated, alive, closed, strict=True))
    # How a process ended after that is in no log.
    abrupt, stopped = (
        "ended abruptly with {} open",
        "had {} open when it ended or recording stopped",
    )
    how = stopped if was_stopped else abrupt
    died = [
        f"process {pid} {how.format(plural(count, 'range'))}, cut at its last sign of life"
        for pid, count, lives, ended in rows
        if count and not lives and not ended
    ]
    lived = [
        f"process {pid} still ran when its log was read: what it did later is not in the recording"
        for pid, _, lives, _ in rows
        if lives
    ]
    alike = "had some open likewise" if was_stopped else "ended likewise"
    for sentences, rest in ((died, alike), (lived, "still ran likewise")):
        told.warnings += sentences[:_SHOWN]
        if len(sentences) > _SHOWN:
            more = plural(len(sentences) - _SHOWN, "more process", "more processes")
            told.warnings.append(f"{more} {rest}")


def _tell_notes(told: Told, session: RawSession) -> None:
    columns = (session.facts("note", name) for name in ("time_ns", "kind", "text_id", "process_id"))
    for time_ns, kind, text, process in zip(*columns, strict=True):
        if kind in _NOTES:
            severity, sentence = _NOTES[kind]
            said = sentence.format(session.text(text) or "?")
            told.diagnostics.append(Diagnostic(time_ns, severity, said, process))
            if severity == _WARNING and said not in told.warnings:
                told.warnings.append(said)
    left_out = sum(session.facts("session", "notes_left_out"))
    if left_out:
        told.warnings.append(f"{plural(left_out, 'note')} of the agents left out")
