"""A recording with too many events for a page: rows in a file, and tiles on demand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from warpline import progress
from warpline.ops.arrays import BoolArray
from warpline.result import Diagnosis
from warpline.trace import Run
from warpline.units import format_count, format_ratio
from warpline.viewer.attributes import EVENT_TABLES, row_attributes
from warpline.viewer.container import BlockWriter, Container
from warpline.viewer.names import CATEGORIES, Names
from warpline.viewer.pack import LINKS, Frame, TableOfStats, plain_json, timeline_rows
from warpline.viewer.questions import BadQuestion, Questions
from warpline.viewer.server import Answer
from warpline.viewer.stored_rows import RowStore
from warpline.viewer.tiles import BINS, Grid, tile

View = Callable[[], tuple[Diagnosis, Sequence[TableOfStats]]]

_THREADS = 2  # answers computed in parallel
_LONGEST_LIST = 20_000  # characters of a list of rows
_TILE = re.compile(r"tiles/(\d{1,2})/(\d{1,16})", re.ASCII)
_ROWS = re.compile(r"rows=(\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*)", re.ASCII)
_OCTETS = "application/octet-stream"
_JSON = "application/json"
_IDLE = [place for place, category in enumerate(CATEGORIES) if category.kind == "idle"]
_PENDING = (
    "The diagnosis of {count} events is being computed. The timeline and its statistics are"
    " available now. Verdict, findings, tables, and event details appear here when they are ready."
)


class TiledPage:
    """The data of a tiled page, and the answers to its queries."""

    def __init__(self, run: Run) -> None:
        """Store all rows; InputError if there is no space for them."""
        self._trace = trace = run.trace
        self._trace_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_THREADS)
        names = Names(trace.strings)
        store, count = RowStore(), 0
        for row in timeline_rows(run, names):
            store.add(row, _idle(names))
            count += len(row.events)
        stored = store.stored(names.categories(), 0)
        self._frame = Frame(run, names, [row.row for row in stored])
        origin, end = self._frame.span
        self._rows = [replace(row, origin_ns=origin) for row in stored]
        self._grid = Grid(origin, end, self._frame.offset_ns)
        self._questions = Questions(self._rows, self._grid, LINKS, len(names))
        self._waiting = _PENDING.format(count=format_count(count))
        self.pending: str | None = self._waiting
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(_prepare, self._rows):
                pass

    def container(
        self, diagnosis: Diagnosis | None, tables: Sequence[TableOfStats] = ()
    ) -> Container:
        """Return the container of the page: everything except events.

        Args:
            diagnosis: None while it is being computed.
            tables: Tables to include.
        """
        writer = BlockWriter()
        self._frame.begin(writer)
        first = self._grid.origin_ns - self._grid.offset_ns
        more: dict[str, Any] = {
            "attributes": [],
            "thinned": None,
            "tiles": {"bins": BINS, "levels": self._grid.levels, "start_ns": first},
            "pending": self.pending if diagnosis is None else None,
        }
        return self._frame.finish(writer, diagnosis, tables, more)

    def compute(self, view: View) -> tuple[Diagnosis, Sequence[TableOfStats]]:
        """Return the diagnosis; event details are not available while it is computed."""
        with self._trace_lock, progress.observed(self._noted):
            return view()

    @contextmanager
    def _noted(self, title: str, total: int | None) -> Iterator[progress.Advance]:
        """Say in `pending` how far a task is."""
        done = 0

        def advance(units: int) -> None:
            nonlocal done
            done += units
            share = "" if not total else f": {format_ratio(done / total)}"
            self.pending = f"{self._waiting} {title}{share}."

        advance(0)
        yield advance

    # -- answers ---------------------------------------------------------------------------

    def get(self, name: str, query: str) -> Answer | None:
        """Return a tile or the state of the diagnosis; None for unknown addresses."""
        if name == "state":
            return _as_json({"pending": self.pending})
        asked, rows = _TILE.fullmatch(name), _ROWS.fullmatch(query[:_LONGEST_LIST])
        if asked is None or rows is None:
            return None
        level, index = int(asked[1]), int(asked[2])
        wanted = _numbers(rows[1], len(self._rows))
        if wanted is None or not self._grid.has(level, index):
            return None
        with self._slots:
            return Answer(_OCTETS, tile(self._rows, self._grid, level, index, wanted))

    def post(self, name: str, body: bytes) -> Answer | None:
        """Return the answer to a query; None if the query is unknown or invalid."""
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict):
                return None
            with self._slots:
                return self._answer(name.removeprefix("ask/"), asked)
        except (BadQuestion, KeyError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            return None

    def _answer(self, name: str, asked: dict[str, Any]) -> Answer | None:
        if name == "events":
            return Answer(_OCTETS, self._questions.events(asked) or b"")
        if name == "attributes":
            return self._attributes(asked.get("table"), asked.get("row"))
        return _as_json(self._questions.answer(name, asked))

    def _attributes(self, table: Any, row: Any) -> Answer | None:
        if table not in EVENT_TABLES or not isinstance(row, int) or not self._trace.has(table):
            return None
        if not 0 <= row < self._trace.row_count(table):
            return None
        if not self._trace_lock.acquire(blocking=False):
            return _as_json(None)  # the diagnosis is reading the trace
        try:
            return _as_json(plain_json(row_attributes(self._trace, table, row)))
        finally:
            self._trace_lock.release()


def _prepare(row: Any) -> None:
    if len(row):
        _ = (row.highest, row.lowest) if row.is_counter else (row.by_category, row.sums)


def _idle(names: Names) -> BoolArray:
    is_idle: BoolArray = np.isin(names.categories(), _IDLE)
    return is_idle


def _numbers(text: str, count: int) -> list[int] | None:
    """Return the numbers of a list such as 1,4-6; None if a number is not below `count`."""
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if not first <= last < count or len(numbers) > count:
            return None
        numbers += range(first, last + 1)
    return numbers if len(numbers) <= count else None


def _as_json(value: Any) -> Answer:
    content = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Answer(_JSON, content.encode())
