"""The recordings that the questions are about, unpacked to a folder, and answers by SQL alone.

Nothing here imports Warpline: what a question's answer is was found without it.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUESTIONS = Path(__file__).with_name("questions.json")

_UNPACK = {".xz": lzma.decompress, ".gz": gzip.decompress}


def questions() -> dict[str, Any]:
    """Return the content of questions.json: recordings and questions."""
    found: dict[str, Any] = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    return found


def unpack(folder: Path, names: Sequence[str] | None = None) -> None:
    """Write recordings to a folder.

    Args:
        folder: Created if it does not exist.
        names: Names of recordings; None for all of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in questions()["recordings"].items():
        if names is None or name in names:
            path = ROOT / source
            content = path.read_bytes()
            unpacked = _UNPACK.get(path.suffix, bytes)(content)
            (folder / name).write_bytes(unpacked)


def by_sql(folder: Path, names: Sequence[str], sql: str) -> Any:
    """Return the answer of a query: a value, or for several rows, a list.

    Args:
        folder: Where the recordings are.
        names: The recordings. Tables of the first one need no prefix; those of a second one have
            the prefix ``other``. A trace of the PyTorch profiler has one table: ``event``, with the
            columns ph, cat, name, ts, dur, pid, tid and args, which is JSON.
        sql: The query.
    """
    first, *others = (folder / name for name in names)
    is_trace = first.suffix == ".json"
    with closing(sqlite3.connect(":memory:" if is_trace else first)) as database:
        if is_trace:
            _load_events(database, first)
        for path in others:
            database.execute("attach ? as other", (str(path),))
        rows = database.execute(sql).fetchall()
    values = [row[0] for row in rows]
    return values[0] if len(values) == 1 else values


def _load_events(database: sqlite3.Connection, path: Path) -> None:
    """Make the table ``event`` of a trace in Chrome's format."""
    database.execute("create table event (ph, cat, name, ts, dur, pid, tid, args)")
    events: list[Mapping[str, Any]] = json.loads(path.read_bytes())["traceEvents"]
    columns = ("ph", "cat", "name", "ts", "dur", "pid", "tid")
    database.executemany(
        "insert into event values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (*(_plain(item.get(name)) for name in columns), json.dumps(item.get("args")))
            for item in events
        ),
    )


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
