"""Programs killed at any moment: no complete event is missing, out of order or duplicated.

`programs/kills.c` keeps a ledger of its own beside what it records. Many of them record into one
session, one after the other; the launcher's own code notes their ends.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from support import raw_logs

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.capture.launcher.attached import Attached
from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import Session
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="finishing needs the native core")

PUSH, POP, MARK, START, STOP = range(5)
SLOTS, DEPTH, OF_WORKER = 64, 8, 60
SLOT = struct.Struct(f"<{3 + 3 * (1 + DEPTH)}Q")
MOST = 20_000  # operations of the main thread: ten milliseconds or more, then it waits
# Under a sanitizer each takes six times as long.
KILLS = 25 if "sanitize" in os.environ.get("WARPLINE_TEST_CFLAGS", "") else 250
OF_A_SESSION = 50
NEVER = 1 << 62


def sequence() -> tuple[np.ndarray, np.ndarray]:
    """Return the operations of a thread, and by which of them what each opens is closed."""
    kinds, closed_by = np.zeros(MOST, np.int64), np.full(MOST, NEVER)
    state = 1
    pushed: list[int] = []
    started: int | None = None
    for place in range(MOST):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        chance = (state >> 16) % 8
        if not pushed or (chance < 3 and len(pushed) < DEPTH - 1):
            kinds[place] = PUSH
            pushed.append(place)
        elif chance < 6:
            kinds[place] = POP
            closed_by[pushed.pop()] = place
        elif chance == 6:
            kinds[place] = MARK
        elif started is None:
            kinds[place] = START
            started = place
        else:
            kinds[place] = STOP
            closed_by[started], started = place, None
    return kinds, closed_by


KINDS, CLOSED_BY = sequence()


@dataclass
class Slot:
    """What the ledger says of a thread."""

    done: int
    joined_ns: int
    last_ns: int
    opened: dict[int, tuple[int, int]]  # operation -> when: not before, not after


@dataclass
class Killed:
    """A program that was killed."""

    pid: int
    killed_ns: int
    noted_ns: int
    slots: list[Slot]


@dataclass
class Schedule:
    """Kills programs and keeps what they had noted."""

    program: Path
    session: Session
    environment: dict[str, str]
    chance: random.Random
    killed: list[Killed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.attached = Attached(self.session.folder, self.session.control, 0)

    def kill_one(self) -> None:
        """Start a program and kill it: while it starts, or a while after it began to record."""
        ledger = self.session.folder.with_name("ledger")
        ledger.write_bytes(b"")
        words = [str(self.program), str(ledger)]
        pid = os.posix_spawn(self.program, words, self.environment)
        if self.chance.random() < 0.7:
            with ledger.open("rb", buffering=0) as file:
                while not any(os.pread(file.fileno(), 8, 0)):
                    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the program did not run"
        until = time.perf_counter() + self.chance.choice((0.0005, 0.002)) * self.chance.random()
        while time.perf_counter() < until:
            pass
        if self.chance.random() < 0.5:
            self.attached.look()
        killed_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        if self.chance.random() < 0.5:  # as for one that has another parent
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self.attached.sweep()
        _, status = os.waitpid(pid, 0)
        self.attached.reaped(pid, status)
        noted_ns = time.monotonic_ns()
        assert os.WTERMSIG(status) == signal.SIGKILL
        self.killed.append(Killed(pid, killed_ns, noted_ns, read_ledger(ledger)))
        ledger.unlink()

    def end(self) -> Trace:
        """Finish the session."""
        self.attached.close()
        self.session.end()
        self.session.close()
        finish(self.session.folder, self.session.folder / "run.warpline")
        return warpline.open(self.session.folder / "run.warpline")


def read_ledger(path: Path) -> list[Slot]:
    """Return what a program noted so far."""
    raw = path.read_bytes()
    whole = len(raw) // SLOT.size * SLOT.size
    found = []
    for done, joined_ns, last_ns, *opened in SLOT.iter_unpack(raw[:whole]):
        triples = (opened[at : at + 3] for at in range(0, len(opened), 3))
        times = {operation: (before, after) for operation, before, after in triples if after}
        found.append(Slot(done, joined_ns, last_ns, times))
    return found


def check(trace: Trace, killed: list[Killed], origin_ns: int) -> int:
    """Compare a recording with the ledgers; return how many ranges were open at a death."""
    pids = trace["process"]["pid"].to_list()
    assert len(set(pids)) == len(pids)
    assert not trace.meta.lost
    events = {name: events_of(trace, name, origin_ns) for name in ("range", "mark")}
    ends = {end.pid: end for end in trace.meta.ends}
    still_open = 0
    for one in killed:
        mine = {
            name: rows[rows["process"] == (pids.index(one.pid) if one.pid in pids else -1)]
            for name, rows in events.items()
        }
        for number, slot in enumerate(one.slots):
            ranges, marks = (rows[rows["slot"] == number] for rows in mine.values())
            check_thread(slot, ranges, marks, one)
        at_death = left_at_death(mine["range"], one)
        assert len(set(at_death["end_ns"].tolist())) <= 1, "all end at the same moment"
        if len(at_death):
            assert (ends[one.pid].cause, ends[one.pid].signal) == ("killed", "SIGKILL")
            assert ends[one.pid].ended_ns + origin_ns == at_death["end_ns"][0]
        still_open += len(at_death)
    return still_open


def left_at_death(ranges: np.ndarray, one: Killed) -> np.ndarray:
    """Return what was open when the process died: not what a thread that had ended left."""
    is_over = np.array([slot.done == OF_WORKER for slot in one.slots[1:]], bool)
    was_left_before = np.zeros(len(ranges), bool)
    if len(is_over):
        is_of_worker = ranges["slot"] > 0
        was_left_before = is_of_worker & is_over[ranges["slot"] - is_of_worker]
        was_left_before &= KINDS[ranges["operation"]] == PUSH
    return ranges[ranges["is_truncated"] & ~was_left_before]


def events_of(trace: Trace, table: str, origin_ns: int) -> np.ndarray:
    """Return the events of a table: whose they are by their names, and their times."""
    is_range = table == "range"
    times = ("start_ns", "end_ns", "is_truncated") if is_range else ("time_ns",)
    columns = trace.columns(table, "process_id", "name_id", *times)
    names = " ".join(trace.strings.texts(columns["name_id"].values.tolist()))
    numbers = np.array(names.split(), np.int64).reshape(-1, 2)
    fields = [("process", int), ("slot", int), ("operation", int), ("start_ns", int)]
    rows = np.zeros(len(numbers), np.dtype([*fields, ("end_ns", int), ("is_truncated", bool)]))
    rows["process"] = columns["process_id"].values
    rows["slot"], rows["operation"] = numbers.T
    rows["start_ns"] = columns[times[0]].values + origin_ns
    if is_range:
        rows["end_ns"] = columns["end_ns"].values + origin_ns
        rows["is_truncated"] = columns["is_truncated"].values
    return rows


def check_thread(slot: Slot, ranges: np.ndarray, marks: np.ndarray, one: Killed) -> None:
    """Check the events of a thread: all that were complete, and at most one that was not noted."""
    found = [*ranges["operation"].tolist(), *marks["operation"].tolist()]
    done = slot.done
    closed = CLOSED_BY[ranges["operation"][~ranges["is_truncated"]]]
    assert (closed < NEVER).all()
    done = max(done, max(found, default=-1) + 1, int(closed.max(initial=-1)) + 1)
    assert done <= slot.done + 1, "more than one call that had not returned"
    opens, is_mark = (KINDS[:done] == PUSH) | (KINDS[:done] == START), KINDS[:done] == MARK
    assert sorted(ranges["operation"].tolist()) == np.flatnonzero(opens).tolist()
    assert sorted(marks["operation"].tolist()) == np.flatnonzero(is_mark).tolist()
    assert (ranges["is_truncated"] == (CLOSED_BY[ranges["operation"]] >= done)).all()
    assert (ranges["end_ns"] >= ranges["start_ns"]).all()
    for row in ranges[ranges["is_truncated"]]:
        check_open(slot, row, one)


def check_open(slot: Slot, row: np.void, one: Killed) -> None:
    """Check when a range that was not closed began and ended: with its thread, or at the death."""
    operation, start_ns, end_ns = (int(row[name]) for name in ("operation", "start_ns", "end_ns"))
    if operation < slot.done:  # else its times were not noted any more
        before_ns, after_ns = slot.opened[operation]
        assert before_ns <= start_ns <= after_ns
    is_at_death = one.killed_ns <= end_ns <= one.noted_ns
    is_over = slot.done == OF_WORKER and KINDS[operation] == PUSH and slot is not one.slots[0]
    if is_over and slot.joined_ns:
        assert slot.last_ns <= end_ns <= slot.joined_ns
    elif is_over:
        assert is_at_death or slot.last_ns <= end_ns <= one.noted_ns
    else:
        assert is_at_death


def run_schedule(folder: Path, program: Path, agent: Path, kills: int, seed: int) -> int:
    """Kill so many programs; return how many ranges were open at a death."""
    chance = random.Random(seed)
    still_open = 0
    for first in range(0, kills, OF_A_SESSION):
        session = raw_logs.make_session(folder / f"{first}", AgentConfig(block_bytes=1 << 16))
        facts = session_facts(
            session.folder, command=(), options={}, environment={}, collected=["nvtx"]
        )
        session.write_facts(**facts)
        environment = {**os.environ, **session.variables(agent)}
        schedule = Schedule(program, session, environment, chance)
        for _ in range(min(OF_A_SESSION, kills - first)):
            schedule.kill_one()
        trace = schedule.end()
        still_open += check(trace, schedule.killed, facts["started_monotonic_ns"])
        for path in session.folder.iterdir():
            path.unlink()
    return still_open


@pytest.mark.parametrize(  # 1,000 in all
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))]
)
def test_kills_at_any_moment(compile_program, agent, tmp_path, seed):
    """Every event whose call had returned is there, once; what was open ends at the death."""
    program = compile_program("kills.c")
    still_open = run_schedule(tmp_path, program, agent, KILLS, seed)
    assert still_open > KILLS  # the schedule did meet programs at work
