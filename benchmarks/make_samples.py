"""Write a large recording of what CPU threads did, as a file of Warpline.

Usage: python benchmarks/make_samples.py ROWS OUT.warpline [--tables cpu_sample,os_call] [--seed 1]

Each table has ROWS rows of 64 threads in 8 processes. Stacks are Python code over native code, 30
to 40 frames deep: 50,000 different ones of 3,000 functions, of which few take most of the time. All
values are synthetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray
from warpline.schema import TABLES
from warpline.schema.labels import CODE_KINDS, GIL_STATES, THREAD_STATES
from warpline.trace import ColumnData, StringPool, Trace, TraceMeta
from warpline.trace.column import make_column, null_column
from warpline.trace.recording import write_recording

PROCESSES, THREADS = 8, 64
FUNCTIONS, LINES, MODULES = 3_000, 3, 60
DEPTH, PYTHON_DEPTH, STACKS, STACKS_PER_DEPTH = 40, 20, 50_000, 8_000
PERIOD_NS = 1_000_000
CALLS = (
    *("read", "write", "poll", "pthread_cond_wait", "pthread_mutex_lock", "nanosleep", "open64"),
    *("recvmsg", "sendmsg", "epoll_wait", "sem_wait", "ioctl", "fsync", "close", "getrandom"),
)

Columns = Mapping[str, Any]


class Made:
    """A source of tables that are arrays."""

    def __init__(self, tables: Mapping[str, Columns], strings: StringPool) -> None:
        self.meta = TraceMeta((Path("made"),), "made")
        self.strings = strings
        self._tables = tables

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return list(self._tables)

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return len(next(iter(self._tables[table].values())))

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns; those that were not made are null."""
        return {name: self._column(table, name) for name in columns}

    def _column(self, table: str, name: str) -> ColumnData:
        spec = TABLES[table].column(name)
        values = self._tables[table].get(name)
        if values is None:
            return null_column(spec, self.row_count(table))
        if isinstance(values, ColumnData):
            return values
        return make_column(spec, values, np.ones(len(values), np.bool_))


class Draw(NamedTuple):
    """What rows are drawn from: random numbers, and the stacks, the most frequent first."""

    random: np.random.Generator
    stacks: I64

    def stack(self, rows: int, most: int = STACKS) -> I32:
        """Return a stack for each row."""
        share = 1 / np.arange(1, min(most, len(self.stacks)) + 1)
        place = np.searchsorted(np.cumsum(share / share.sum()), self.random.random(rows))
        return self.stacks[np.minimum(place, len(share) - 1)].astype(np.int32)

    def times(self, rows: int, period_ns: int) -> tuple[I64, I32]:
        """Return ascending times, and the thread of each: its own are a period apart, about."""
        per_thread = -(-rows // THREADS)
        gaps = self.random.integers(period_ns // 2, period_ns * 3 // 2, (THREADS, per_thread))
        time = np.cumsum(gaps, axis=1).reshape(-1)
        thread = np.repeat(np.arange(THREADS, dtype=np.int32), per_thread)
        order = np.argsort(time, kind="stable")[:rows]
        return time[order], thread[order]


def make(rows: int, path: Path, tables: Sequence[str], seed: int = 1) -> None:
    """Write a recording with the given tables, each of `rows` rows."""
    draw, strings = Draw(np.random.default_rng(seed), np.zeros(0, np.int64)), StringPool()
    known: dict[str, Columns] = {**_threads(strings), **_stacks(draw.random, strings)}
    innermost = np.flatnonzero(known["stack"]["depth"] >= DEPTH - 10)
    draw = draw._replace(stacks=draw.random.permutation(innermost)[:STACKS])
    known |= {table: MAKERS[table](draw, strings, rows) for table in tables}
    write_recording(Trace(Made(known, strings)), path)


def _threads(strings: StringPool) -> dict[str, Columns]:
    names = [strings.intern_text(f"thread{place % 8}") for place in range(THREADS)]
    process = np.arange(THREADS) // (THREADS // PROCESSES)
    main = [strings.intern_text("python3")] * PROCESSES
    return {
        "process": {"pid": 1000 + np.arange(PROCESSES), "name_id": main},
        "thread": {"process_id": process, "tid": 5000 + np.arange(THREADS), "name_id": names},
    }


def _stacks(random: np.random.Generator, strings: StringPool) -> dict[str, Columns]:
    kinds = {label: value for value, label in CODE_KINDS.items()}
    function = np.repeat(np.arange(FUNCTIONS), LINES)
    is_python = function < FUNCTIONS // 2
    symbols = np.array([strings.intern_text(f"function_{each}") for each in range(FUNCTIONS)])
    files = np.array([strings.intern_text(f"/app/file_{each}.py") for each in range(MODULES)])
    libraries = np.array([strings.intern_text(f"libwork_{each}.so") for each in range(MODULES)])
    line = random.integers(1, 2_000, len(function))
    module = np.where(is_python, files[function % MODULES], libraries[function % MODULES])
    frame = {
        "symbol_id": symbols[function],
        "module_id": module,
        "kind": np.where(is_python, kinds["Python"], kinds["Native"]),
        "is_unresolved": np.zeros(len(function), np.bool_),
        "line": ColumnData(np.where(is_python, line, 0), is_python),
    }
    parents, depths, frames, before = [], [], [], np.zeros(1, np.int64)
    first = 0
    for level in range(DEPTH):
        count = min(2**level, STACKS_PER_DEPTH)
        low, high = (0, FUNCTIONS // 2) if level < PYTHON_DEPTH else (FUNCTIONS // 2, FUNCTIONS)
        parents.append(random.choice(before, count))
        frames.append(random.integers(low * LINES, high * LINES, count))
        depths.append(np.full(count, level))
        before = np.arange(first, first + count)
        first += count
    depth = np.concatenate(depths)
    parent = ColumnData(np.concatenate(parents).astype(np.int32), depth > 0)
    stack = {"parent_id": parent, "depth": depth, "frame_id": np.concatenate(frames)}
    return {"frame": frame, "stack": stack}


def _cpu_samples(draw: Draw, strings: StringPool, rows: int) -> Columns:
    time, thread = draw.times(rows, PERIOD_NS)
    return {
        "time_ns": time,
        "thread_id": thread,
        "cpu": thread % 32,
        "cycles": np.ones(rows, np.int64),
        "period_ns": PERIOD_NS + draw.random.integers(-1000, 1000, rows),
        "stack_id": draw.stack(rows),
    }


def _switches(draw: Draw, strings: StringPool, rows: int) -> Columns:
    states = {label: value for value, label in THREAD_STATES.items()}
    time, thread = draw.times(rows, PERIOD_NS // 10)
    order = np.argsort(thread, kind="stable")
    first = np.searchsorted(thread[order], thread[order])
    is_in: BoolArray = np.empty(rows, np.bool_)
    is_in[order] = (np.arange(rows) - first) % 2 == 0
    left = [states[name] for name in ("Running", "Interruptible", "Uninterruptible")]
    state = np.where(is_in, states["Running"], draw.random.choice(left, rows, p=[0.3, 0.6, 0.1]))
    return {
        "time_ns": time,
        "thread_id": thread,
        "cpu": thread % 32,
        "is_sched_in": is_in,
        "state": state,
        "stack_id": ColumnData(np.where(is_in, 0, draw.stack(rows, STACKS // 2)), ~is_in),
    }


def _python_samples(draw: Draw, strings: StringPool, rows: int) -> Columns:
    time, thread = draw.times(rows, PERIOD_NS)
    return {
        "time_ns": time,
        "thread_id": thread,
        "period_ns": np.full(rows, PERIOD_NS // 2),
        "is_running": draw.random.random(rows) < 0.3,
        "has_gil": draw.random.random(rows) < 0.1,
        "stack_id": draw.stack(rows),
    }


def _gil_spans(draw: Draw, strings: StringPool, rows: int) -> Columns:
    states = {label: value for value, label in GIL_STATES.items()}
    turns = rows // 2 // PROCESSES
    starts, ends, threads, kinds = [], [], [], []
    for process in range(PROCESSES):  # a thread waits for the lock, then holds it
        held = draw.random.integers(2_000, 10_000, turns)
        end = np.cumsum(held)
        start = end - held
        thread = process * (THREADS // PROCESSES) + draw.random.integers(
            0, THREADS // PROCESSES, turns
        )
        waited = np.minimum(draw.random.integers(0, 5_000, turns), start)
        starts += [start, start - waited]
        ends += [end, start]
        threads += [thread, thread]
        kinds += [np.full(turns, states["Holding"]), np.full(turns, states["Waiting"])]
    start, end, thread, kind = map(np.concatenate, (starts, ends, threads, kinds))
    return {
        "start_ns": start,
        "end_ns": end,
        "process_id": thread // (THREADS // PROCESSES),
        "thread_id": thread,
        "state": kind,
    }


def _os_calls(draw: Draw, strings: StringPool, rows: int) -> Columns:
    time, thread = draw.times(rows, PERIOD_NS // 10)
    names = np.array([strings.intern_text(name) for name in CALLS])
    return {
        "start_ns": time,
        "end_ns": time + draw.random.integers(500, PERIOD_NS // 20, rows),
        "process_id": thread // (THREADS // PROCESSES),
        "thread_id": thread,
        "name_id": names[draw.random.integers(0, len(names), rows)],
        "return_value": np.zeros(rows, np.int64),
        "stack_id": draw.stack(rows, STACKS // 10),
    }


MAKERS: Mapping[str, Callable[[Draw, StringPool, int], Columns]] = {
    "cpu_sample": _cpu_samples,
    "sched_event": _switches,
    "python_sample": _python_samples,
    "gil_span": _gil_spans,
    "os_call": _os_calls,
}


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description="Writes a large recording of CPU threads.")
    parser.add_argument("rows", type=int, help="rows of each table")
    parser.add_argument("path", type=Path, help="output file")
    parser.add_argument("--tables", default=",".join(MAKERS), help="tables, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    make(options.rows, options.path, options.tables.split(","), options.seed)


if __name__ == "__main__":
    main()
