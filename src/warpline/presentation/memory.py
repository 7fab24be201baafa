"""Who holds the memory of a GPU, as blocks: for the screen, Markdown, and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    FindingBlock,
    Fit,
    Head,
    Line,
    Presentation,
    Row,
    Section,
    Table,
)
from warpline.result import Document, Field, Result, Skipped
from warpline.units import Unit, format_bytes, format_more_bytes, format_ns, format_value, plural

_PEAK = "memory_peak:"
_POOL = ("place", "memory", "allocator", "pid")
_MOST = 5
_MOST_KINDS = 12
_MOST_CHANGES = 8
_EARLIER = "Before"
_TITLES = {"kind": "kind", "line": "line", "module": "module", "operator": "operator"}
_NOBODY = {
    "kind": "unknown",
    "line": "without a Python stack",
    "module": "outside modules",
    "operator": "outside operators",
}
_UNNAMED = (None, "Unknown")
_BEFORE = "allocated before recording"

Record = Mapping[str, Any]


def screen(document: Document) -> Presentation:
    """Return what a terminal shows of one recording."""
    return Presentation(tuple(_blocks(document)), tuple(document.meta["paths"]))


def screen_of_two(document: Document) -> Presentation:
    """Return what a terminal shows of two recordings."""
    return Presentation(tuple(_blocks_of_two(document)), tuple(document.meta["paths"]))


def on_page(document: Document) -> tuple[Block, ...]:
    """Return the tables and findings of the page of one recording."""
    return tuple(block for block in _blocks(document) if not isinstance(block, Head | Commands))


def on_page_of_two(document: Document) -> tuple[Block, ...]:
    """Return the tables and findings of the page of two recordings."""
    blocks = _blocks_of_two(document)
    return tuple(block for block in blocks if not isinstance(block, Head | Commands))


class _Shown(NamedTuple):
    """A column of a table: where its values are, and its heading."""

    name: str
    heading: str


def _blocks(document: Document) -> Iterator[Block]:
    tables = _tables(document)
    pools = _records(tables["memory_sum"])
    pool = pools[0]
    yield Head(document.title, "", _verdict(pool), _remainder(pool))
    if len(pools) > 1:
        yield _of_pools(tables["memory_sum"], pools)
    of_pool = {
        name: [one for one in _records(table) if _is_of(one, pool)]
        for name, table in tables.items()
        if set(_POOL) <= set(table.columns)
    }
    place = f" of {_name_of(pool)}" if len(pools) > 1 else ""
    for name, rows in of_pool.items():
        by = name.removeprefix(_PEAK)
        if name.startswith(_PEAK) and any(row[by] not in _UNNAMED for row in rows):
            yield _holders(by, rows, place)
    for name, title in (("memory_phases", "Peak of each phase"), ("memory_leaks", "Growth")):
        if of_pool.get(name):
            yield _table(title, tables[name], of_pool[name])
    yield from _findings(tables)
    yield Commands(("warpline memory -o memory.html",), "next")


def _blocks_of_two(document: Document) -> Iterator[Block]:
    tables = _tables(document)
    pools = _records(tables["memory_sum:compared"])
    yield Head(document.title, "", _verdict_of_two(pools), "")
    for name, table in tables.items():
        by = name.removeprefix(_PEAK).removesuffix(":compared")
        if name.startswith(_PEAK):
            rows = [row for row in _records(table) if row["delta_in_use_bytes"]]
            if any(row[by] not in _UNNAMED for row in _records(table)):
                yield _changes(by, rows)
    yield from _findings(tables)
    yield Commands(("warpline memory -o memory.html",), "next")


def _tables(document: Document) -> dict[str, Result]:
    return {
        section.name: section for section in document.sections if not isinstance(section, Skipped)
    }


def _records(table: Result) -> list[Record]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


def _is_of(row: Record, pool: Record) -> bool:
    return all(row[name] == pool[name] for name in _POOL)


def _name_of(pool: Record) -> str:
    process = f", process {pool['pid']}" if pool["pid"] else ""
    driver = " (driver)" if pool["allocator"] == "Driver" else ""
    return f"{pool['place']}{process}{driver}"


def _verdict(pool: Record) -> str:
    """Return the peak, and how much of the GPU's memory was taken."""
    parts = [f"Peak: {format_bytes(pool['peak_bytes'])} allocated at {format_ns(pool['peak_ns'])}"]
    if pool["reserved_bytes"] is not None:
        parts.append(f"at most {format_bytes(pool['reserved_bytes'])} reserved")
    if pool["device_bytes"]:
        share = format_value(pool["device_ratio"], Unit.RATIO)
        parts.append(f"{share} of {format_bytes(pool['device_bytes'])}")
    return f"{', '.join(parts)}."


def _remainder(pool: Record) -> str:
    return f"{_name_of(pool)}: {format_bytes(pool['end_bytes'])} in use at the end."


def _verdict_of_two(pools: Sequence[Record]) -> str:
    sentences = []
    for pool in pools[:_MOST]:
        before, after = pool["before_peak_bytes"], pool["after_peak_bytes"]
        if before is not None and after is not None:
            change = format_more_bytes(after - before)
            sentences.append(
                f"Peak of {_name_of(pool)}: {format_bytes(before)} before,"
                f" {format_bytes(after)} after ({change})."
            )
    return " ".join(sentences) or "No GPU is in both recordings."


def _of_pools(table: Result, pools: Sequence[Record]) -> Section:
    columns = (
        *(_Shown("place", "place"), _Shown("memory", "memory"), _Shown("pid", "process")),
        _Shown("allocator", "allocator"),
        *(_Shown("peak_bytes", "peak"), _Shown("reserved_bytes", "reserved")),
        *(_Shown("device_ratio", "of GPU memory"), _Shown("end_bytes", "at the end")),
    )
    return Section("Memory of each GPU and process", (_shown(table, columns, pools),))


def _holders(by: str, rows: Sequence[Record], place: str) -> Section:
    """Return the largest rows of a table of the peak."""
    most = _MOST_KINDS if by == "kind" else _MOST
    labels = [_label(by, row) for row in rows]
    cells = [
        Row(
            (
                Cell(label, is_code=row[by] is not None),
                Cell(format_bytes(row["in_use_bytes"])),
                Cell(format_value(row["peak_ratio"], Unit.RATIO)),
                Cell("-" if row["blocks"] is None else f"{row['blocks']:,}"),
            )
        )
        for row, label in zip(rows[:most], labels, strict=False)
    ]
    blocks: list[Block] = [_fitting((by, "bytes", "share", "blocks"), cells)]
    if len(rows) > most:
        rest = sum(row["in_use_bytes"] for row in rows[most:])
        more = f"{plural(len(rows) - most, 'more row')}: {format_bytes(rest)}."
        blocks.append(Line(more, is_faint=True))
    return Section(f"At the peak{place}, by {_TITLES[by]}", tuple(blocks))


def _label(by: str, row: Record) -> str:
    is_earlier = row.get("allocated") == _EARLIER
    if row[by] is None:
        return _BEFORE if is_earlier else _NOBODY[by]
    return f"{row[by]} (before recording)" if is_earlier and by != "kind" else str(row[by])


def _changes(by: str, rows: Sequence[Record]) -> Section:
    title = f"At the peak, by {_TITLES[by]}"
    if not rows:
        return Section(title, (Line("No differences."),))
    cells = [
        Row(
            (
                Cell(_label(by, row), is_code=row[by] is not None),
                *(_size(row[f"{side}_in_use_bytes"]) for side in ("before", "after")),
                Cell(format_more_bytes(row["delta_in_use_bytes"])),
            )
        )
        for row in rows[:_MOST_CHANGES]
    ]
    blocks: list[Block] = [_fitting((by, "before", "after", "change"), cells)]
    if len(rows) > _MOST_CHANGES:
        more = plural(len(rows) - _MOST_CHANGES, "more row")
        blocks.append(Line(f"{more} with smaller differences.", is_faint=True))
    return Section(title, tuple(blocks))


def _size(value: int | None) -> Cell:
    return Cell("-" if value is None else format_bytes(value))


def _table(title: str, table: Result, rows: Sequence[Record]) -> Section:
    """Return the first rows of a table, all columns but those that say which memory it is."""
    fields = [field for field in table.without_empty().fields if field.name not in _POOL]
    columns = [_Shown(field.name, _heading(field)) for field in fields]
    blocks: list[Block] = [_shown(table, columns, rows[:_MOST])]
    if len(rows) > _MOST:
        blocks.append(Line(f"{plural(len(rows) - _MOST, 'more row')} not shown.", is_faint=True))
    return Section(title, tuple(blocks))


def _heading(field: Field) -> str:
    return field.name.removesuffix(f"_{field.unit.value}").replace("_", " ")


def _shown(table: Result, columns: Sequence[_Shown], rows: Sequence[Record]) -> Table:
    fields = {field.name: field for field in table.fields}
    shown = [
        column
        for column in columns
        if any(row[column.name] is not None for row in rows) or column.name in _POOL
    ]
    cells = [
        Row(tuple(_cell(fields[column.name], row[column.name]) for column in shown)) for row in rows
    ]
    return _fitting([column.heading for column in shown], cells)


def _fitting(headings: Sequence[str], rows: Sequence[Row]) -> Table:
    """Return a table of a text and numbers, as wide as its cells."""
    columns = [Column(headings[0], fit=Fit.SHORTEN)]
    for place, heading in enumerate(headings[1:], 1):
        width = max((len(row.cells[place].text) for row in rows), default=0)
        columns.append(Column(heading, width=width, is_number=True))
    return Table(columns=tuple(columns), rows=tuple(rows))


def _cell(field: Field, value: Any) -> Cell:
    return Cell("-" if value is None else format_value(value, field.unit))


def _findings(tables: Mapping[str, Result]) -> Iterator[Block]:
    rows = _records(tables["memory_findings"]) if "memory_findings" in tables else []
    blocks = tuple(
        FindingBlock(
            id=f"F{number}",
            severity=row["severity"],
            title=row["title"],
            rule=row["rule"],
            claim=row["claim"],
            evidence=(),
            saving="",
            facts=(("Fix", row["fix"]),),
        )
        for number, row in enumerate(rows, 1)
    )
    if blocks:
        yield Section("Findings", blocks)
