"""Where the time of stacks goes, as blocks: for the screen, Markdown, and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Fit,
    Head,
    Line,
    Presentation,
    Row,
    Section,
    Table,
)
from warpline.result import Document, Result
from warpline.units import Unit, format_ns, format_value, plural

_MOST, _MOST_CALLERS = 15, 8
_HEADINGS = ("self", "share", "total", "share", "stacks")
# What a stack is of each kind.
_NOUNS = {"gpu": "GPU operation", "offcpu": "pause", "os": "OS call"}
_OF_ALL = "warpline flame -o flame.html"

Record = Mapping[str, Any]


def screen(document: Document, recordings: Sequence[str]) -> Presentation:
    """Return what a terminal shows of the document of `warpline.flame`."""
    return Presentation(tuple(_blocks(document)), tuple(recordings))


def on_page(document: Document) -> tuple[Block, ...]:
    """Return the table of the page without its script."""
    return tuple(block for block in _blocks(document) if not isinstance(block, Head | Commands))


def _blocks(document: Document) -> Iterator[Block]:
    tables = {section.name: section for section in document.sections if isinstance(section, Result)}
    (total,) = _records(tables["flame_sum"])
    yield Head(document.title, "", _verdict(total), tables["flame_sum"].notes[0])
    records = _records(tables["flame_functions"])
    title = tables["flame_functions"].title
    yield _functions(title, [record for record in records if record["self_ns"]])
    callers = _callers(records)
    if callers:
        yield _functions("Python functions, with what they called", callers, is_whole=False)
    yield Commands((_OF_ALL,), "next")


def _records(table: Result) -> list[Record]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


def _verdict(total: Record) -> str:
    """Return the sum: ``CPU time: 66.0 ms in 66 samples of 8 threads.``."""
    count = plural(total["stacks"], _NOUNS.get(total["of"], "sample"))
    threads = plural(total["threads"], "thread")
    return f"{total['title']}: {format_ns(total['total_ns'])} in {count} of {threads}."


def _callers(records: Sequence[Record]) -> list[Record]:
    """Return the Python functions that called others, the longest total time first."""
    found = [
        record
        for record in records
        if record["kind"] == "Python" and record["total_ns"] > record["self_ns"]
    ]
    return sorted(found, key=lambda record: -record["total_ns"])


def _functions(title: str, records: Sequence[Record], *, is_whole: bool = True) -> Section:
    """Return a table of functions.

    Args:
        title: Its title.
        records: The functions, the most important first.
        is_whole: Whether the self time of the functions that are left out is shown.
    """
    shown = records[: _MOST if is_whole else _MOST_CALLERS]
    rows = tuple(_row(record) for record in shown)
    columns = [Column("function", fit=Fit.CUT)]
    for place, heading in enumerate(_HEADINGS, 1):
        width = max((len(row.cells[place].text) for row in rows), default=0)
        columns.append(Column(heading, width=width, is_number=True))
    blocks: list[Block] = [Table(columns=tuple(columns), rows=rows, look="numbers")]
    rest = records[len(shown) :]
    if rest:
        own = format_ns(sum(record["self_ns"] for record in rest))
        time = f" with {own} of self time" if is_whole else ""
        blocks.append(Line(f"{plural(len(rest), 'more function')}{time}.", is_faint=True))
    return Section(title, tuple(blocks))


def _row(record: Record) -> Row:
    module = (record["module"] or "").replace("\\", "/").rsplit("/", 1)[-1]
    name = record["function"]
    is_named = module and module not in name  # [libc.so.6] is code without a symbol
    times = (("self_ns", "self_ratio"), ("total_ns", "total_ratio"))
    cells = [
        Cell(text)
        for time, share in times
        for text in (format_ns(record[time]), format_value(record[share], Unit.RATIO))
    ]
    label = f"{name} ({module})" if is_named else name
    return Row((Cell(label, is_code=True), *cells, Cell(f"{record['stacks']:,}")))
