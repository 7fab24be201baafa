"""SQL over a recording: nsys tables through SQLite, or trace tables through Polars.

A query uses one kind of table. Nothing is written: the SQLite authorizer lets a query only read
and compute.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline import progress
from warpline.errors import UsageError
from warpline.exporters.nsys_tables import SOURCES
from warpline.exporters.sqlite import fill
from warpline.lazy import lazy
from warpline.result import Document, Field, Result, column_of, document_of
from warpline.schema import TABLES
from warpline.trace.trace import Trace
from warpline.units import Unit

if TYPE_CHECKING:
    import polars as pl
else:  # queries of nsys's tables do not need it
    pl = lazy("polars")

_SQLITE_MAGIC = b"SQLite format 3\0"
_CALLBACK_STEPS = 100_000  # steps of SQLite's virtual machine, some ms: the delay of Ctrl+C
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_NO_TABLE = re.compile(r"no such table: (?:main\.)?(\S+)")
_NO_NAMES = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = r'(?:"[^"]+"|\[[^\]]+\]|`[^`]+`|\w+)'
_ALIAS = rf"(?:\s+(?:as\s+)?(?!(?:where|on|join|left|inner|cross|group|order|limit)\b){_NAME})?"
_SOURCES = re.compile(
    rf"\b(?:from|join)\s+({_NAME}{_ALIAS}(?:\s*,\s*{_NAME}{_ALIAS})*)", re.IGNORECASE
)
_LOCAL = re.compile(
    rf"({_NAME})\s*(?:\([^()]*\)\s*)?\bas\s+(?:not\s+|materialized\s+)*\(", re.IGNORECASE
)


@dataclass(frozen=True)
class Answer:
    """The result of a query.

    Attributes:
        names: Column names; a name may repeat.
        rows: Rows of Python values, None for NULL.
    """

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def run(trace: Trace, sql: str) -> Answer:
    """Run one query.

    Args:
        trace: The trace, or a part of one.
        sql: A SELECT over nsys tables (``CUPTI_ACTIVITY_KIND_KERNEL``, ``StringIds``...) or over
            trace tables (``kernel``, ``range``...), not both.

    Raises:
        UsageError: The query fails; the message is that of the SQL engine.
    """
    with progress.task("Running the query"):
        return _run(trace, sql)


def frame(trace: Trace, sql: str) -> pl.DataFrame:
    """Run one query, as `run` does, and return a DataFrame. Repeated names are numbered."""
    answer = run(trace, sql)
    names = _distinct(answer.names)
    return pl.DataFrame(answer.rows, schema=names, orient="row", infer_schema_length=None)


def document(trace: Trace, sql: str) -> Document:
    """Run one query, as `run` does, and return a document with the table ``query``."""
    answer = run(trace, sql)
    names = _distinct(answer.names)
    columns = zip(*answer.rows, strict=True) if answer.rows else [() for _ in names]
    values = {name: column_of(column) for name, column in zip(names, columns, strict=True)}
    fields = tuple(Field(name, Unit.NONE, "A column of the query.") for name in names)
    return document_of(trace, [Result("query", "Query result", fields, values)])


def _distinct(names: Sequence[str]) -> list[str]:
    """Number repeated names: SQL allows columns of the same name, a table does not."""
    distinct: list[str] = []
    for name in names:
        count, wanted = 1, name
        while wanted in distinct:
            count += 1
            wanted = f"{name}_{count}"
        distinct.append(wanted)
    return distinct


def _run(trace: Trace, sql: str) -> Answer:
    if not sql.strip():
        raise UsageError("the SQL query is empty", hint="write a SELECT")
    named = _tables_named(sql)
    ours = sorted(named & {*trace.tables})
    if not ours:
        return _run_sqlite(trace, sql, {name.lower() for name in named})
    theirs = sorted(named - {*TABLES})
    if theirs:
        raise UsageError(
            f"the query mixes Warpline and nsys tables: {ours[0]} and {theirs[0]}",
            hint="use only nsys names (CUPTI_ACTIVITY_KIND_KERNEL) or only Warpline names (kernel)",
        )
    return _run_polars(trace, sql, sorted(named))


def _tables_named(sql: str) -> set[str]:
    """Return the names that follow FROM and JOIN, without those that the query defines."""
    plain = _NO_NAMES.sub(" ", sql)
    local = {_unquoted(found).lower() for found in _LOCAL.findall(plain)}
    named = set()
    for sources in _SOURCES.findall(plain):
        for source in sources.split(","):
            found = re.match(_NAME, source.strip())
            if found:
                named.add(_unquoted(found[0]))
    return {name for name in named if name.lower() not in local and name.lower() != "select"}


def _unquoted(name: str) -> str:
    return name if name[0] not in '"[`' else name[1:-1]


def _run_sqlite(trace: Trace, sql: str, named: set[str]) -> Answer:
    with closing(_database(trace, named)) as base:
        base.execute("PRAGMA trusted_schema = OFF")  # a view in a file may call only safe functions
        base.set_authorizer(_authorize)
        base.set_progress_handler(_let_signals_in, _CALLBACK_STEPS)
        with _sql_errors(trace, base):
            cursor = base.execute(sql)
            names = tuple(item[0] for item in cursor.description or ())
            return Answer(names, cursor.fetchall())


def _database(trace: Trace, named: set[str]) -> sqlite3.Connection:
    """Return a database with the named nsys tables: the recording itself if it is SQLite."""
    path = own_database(trace)
    if path is not None:
        # Immutable: SQLite takes no lock and creates no files next to the recording.
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    base = sqlite3.connect(":memory:", isolation_level=None)
    needed = {table for name, table in SOURCES if name.lower() in named}
    fill(trace, base, needed, with_empty=True)
    return base


def own_database(trace: Trace) -> Path | None:
    """Return the file of an unfiltered trace if it is a SQLite database, else None."""
    if len(trace.meta.paths) != 1 or not trace.is_whole:
        return None
    path = trace.meta.paths[0]
    try:
        with path.open("rb") as file:
            return path if file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC else None
    except OSError:
        return None


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _let_signals_in() -> int:
    """Let Python handle Ctrl+C, which then ends the query."""
    return 0


@contextmanager
def _sql_errors(trace: Trace, base: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        text = str(error)
        if text == "interrupted":
            raise KeyboardInterrupt from None
        raise UsageError(f"SQL: {text}", hint=_hint(trace, base, text)) from None


def _hint(trace: Trace, base: sqlite3.Connection, text: str) -> str | None:
    if "not authorized" in text:
        return "recordings are read-only: write one SELECT"
    found = _NO_TABLE.search(text)
    return None if found is None else _table_hint(trace, base, found[1])


def _table_hint(trace: Trace, base: sqlite3.Connection, missing: str) -> str:
    """Return the hint for a table that the recording does not have."""
    theirs = dict.fromkeys(name for name, table in SOURCES if trace.has(table))
    if own_database(trace) is not None:
        in_file = {row[0] for row in base.execute("SELECT name FROM sqlite_master")}
        theirs = {name: None for name in theirs if name in in_file}
    known = [*theirs, "StringIds", *trace.tables]
    near = [name for name in known if name.lower() == missing.lower()]
    near = near or difflib.get_close_matches(missing, known, n=2, cutoff=0.75)
    is_ours = missing in TABLES or missing in dict(SOURCES)
    if near and not is_ours:
        return f"did you mean {' or '.join(near)}?"
    heading = f"{missing} was not recorded. Tables here" if is_ours else "tables here"
    return f"{heading}: {', '.join(known)}"


def _run_polars(trace: Trace, sql: str, names: list[str]) -> Answer:
    context = pl.SQLContext({name: trace[name] for name in names}, eager=True)
    try:
        table = context.execute(sql)
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise UsageError(f"SQL: {str(error).splitlines()[0]}") from None
    return Answer(tuple(table.columns), table.rows())
