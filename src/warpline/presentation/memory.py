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
_FRAMEWORK, _HOST = "Framework", "Host"
_MOST, _MOST_CHANGES = 5, 8
_EARLIER = "Before"
_NOBODY = {
    "kind": "unknown",
    "line": "without a Python stack",
    "module": "outside modules",
    "operator": "outside operators",
}
_UNNAMED = (None, "Unknown")
_BEFORE = "allocated before recording"
# What is shown of tables: the title, and columns with their headings. The first one is a name.
_SHOWN = {
    "memory_kinds": (
        "Memory by kind",
        (
            *(("kind", "kind"), ("peak_bytes", "at the peak"), ("peak_ratio", "of reserved")),
            *(("blocks", "blocks"), ("most_bytes", "most"), ("kept_bytes", "at step end")),
        ),
    ),
    "memory_phases": (
        "Peak of each phase",
        (
            *(("phase", "phase"), ("peak_bytes", "peak"), ("start_bytes", "at its start")),
            *(
                ("end_bytes", "at its end"),
                ("largest_kind", "largest kind"),
                ("largest_bytes", "bytes"),
            ),
        ),
    ),
    "memory_leaks": (
        "Memory that grows from step to step",
        (
            *(("line", "line"), ("step_bytes", "per step"), ("grown_bytes", "in all")),
            *(("steps", "steps"), ("kind", "kind")),
        ),
    ),
}

Record = Mapping[str, Any]


def screen(document: Document, recordings: Sequence[str]) -> Presentation:
    """Return what a terminal shows of one recording, or of two.

    Args:
        document: Of `warpline.memory`, or of two of them compared.
        recordings: The recording, which may be a directory of several files, or the two of them.
    """
    blocks = _blocks(document) if len(recordings) == 1 else _blocks_of_two(document)
    return Presentation(tuple(blocks), tuple(recordings))


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
    pool = _telling(pools)[0]
    yield Head(document.title, "", _verdict(pool), _remainder(pool))
    if len(pools) > 1:
        yield _of_pools(tables["memory_sum"], pools)
    place = f", {_name_of(pool)}" if len(pools) > 1 else ""
    for name, table in tables.items():
        rows = [row for row in _records(table) if _is_of(row, pool)]
        by = name.removeprefix(_PEAK)
        if name in _SHOWN and rows and pool["allocator"] == _FRAMEWORK:
            yield _chosen(table, rows, place)
        elif name.startswith(_PEAK) and any(row[by] not in _UNNAMED for row in rows):
            yield _holders(by, rows, place)
    yield from _findings(tables)
    yield Commands(("warpline memory -o memory.html",), "next")


def _blocks_of_two(document: Document) -> Iterator[Block]:
    tables = _tables(document)
    pools = _records(tables["memory_sum:compared"])
    yield Head(document.title, "", _verdict_of_two(pools), "")
    for name, table in tables.items():
        by = name.removeprefix(_PEAK).removesuffix(":compared")
        rows = _records(table)
        if name == "memory_kinds:compared":
            yield _changes("kind", "peak_bytes", rows)
        elif name.startswith(_PEAK) and any(row[by] not in _UNNAMED for row in rows):
            yield _changes(by, "in_use_bytes", rows)
    yield from _findings(tables, "Findings after the change")
    yield Commands(("warpline memory -o memory.html",), "next")


def _tables(document: Document) -> dict[str, Result]:
    return {
        section.name: section for section in document.sections if not isinstance(section, Skipped)
    }


def _records(table: Result) -> list[Record]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


def _is_of(row: Record, pool: Record) -> bool:
    """Return whether a row is about this memory; tables of GPUs have no columns for the others."""
    return all(row[name] == pool[name] for name in _POOL if name in row)


def _telling(pools: Sequence[Record]) -> Sequence[Record]:
    """Return the pools to speak of: a framework's on GPUs, else those on GPUs, else all.

    Allocations of the driver contain a framework's, of which more is known.
    """
    on_gpus = [pool for pool in pools if pool["place"] != _HOST]
    return [pool for pool in on_gpus if pool["allocator"] == _FRAMEWORK] or on_gpus or pools


def _name_of(pool: Record) -> str:
    process = f", process {pool['pid']}" if pool["pid"] else ""
    driver = " (driver)" if pool["allocator"] == "Driver" else ""
    return f"{pool['place']}{process}{driver}"


def _verdict(pool: Record) -> str:
    """Return the peak, and how much of the GPU's memory was taken."""
    parts = [f"Peak: {format_bytes(pool['peak_bytes'])} allocated at {format_ns(pool['time_ns'])}"]
    if pool["reserved_bytes"] is not None:
        parts.append(f"at most {format_bytes(pool['reserved_bytes'])} reserved")
    if pool["device_ratio"] is not None:
        share = format_value(pool["device_ratio"], Unit.RATIO)
        parts.append(f"{share} of {format_bytes(pool['device_bytes'])}")
    return f"{', '.join(parts)}."


def _remainder(pool: Record) -> str:
    return f"{_name_of(pool)}: {format_bytes(pool['end_bytes'])} in use at the end."


def _verdict_of_two(pools: Sequence[Record]) -> str:
    sentences = []
    for pool in _telling(pools)[:_MOST]:
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
        for row, label in zip(rows[:_MOST], labels, strict=False)
    ]
    blocks: list[Block] = [_fitting((by, "bytes", "share", "blocks"), cells)]
    if len(rows) > _MOST:
        rest = sum(row["in_use_bytes"] for row in rows[_MOST:])
        more = f"{plural(len(rows) - _MOST, 'more row')}: {format_bytes(rest)}."
        blocks.append(Line(more, is_faint=True))
    return Section(f"At the peak, by {by}{place}", tuple(blocks))


def _label(by: str, row: Record) -> str:
    is_earlier = row.get("allocated") == _EARLIER
    if row[by] is None:
        return _BEFORE if is_earlier else _NOBODY[by]
    return f"{row[by]} (before recording)" if is_earlier and by != "kind" else str(row[by])


def _changes(by: str, value: str, records: Sequence[Record]) -> Section:
    """Return the rows of a comparison that differ, the largest differences first."""
    title = f"At the peak, by {by}"
    rows = [row for row in records if row[f"delta_{value}"]]
    if not rows:
        return Section(title, (Line("No differences."),))
    cells = [
        Row(
            (
                Cell(_label(by, row) + _place(row, records), is_code=row[by] is not None),
                *(_size(row[f"{side}_{value}"]) for side in ("before", "after")),
                Cell(format_more_bytes(row[f"delta_{value}"])),
            )
        )
        for row in rows[:_MOST_CHANGES]
    ]
    blocks: list[Block] = [_fitting((by, "before", "after", "change"), cells)]
    if len(rows) > _MOST_CHANGES:
        more = plural(len(rows) - _MOST_CHANGES, "more row")
        blocks.append(Line(f"{more} with smaller differences.", is_faint=True))
    return Section(title, tuple(blocks))


def _place(row: Record, rows: Sequence[Record]) -> str:
    """Return where a row is, if not all are there."""
    places = {(other["place"], other["pid"]) for other in rows}
    return f" ({row['place']}, process {row['pid']})" if len(places) > 1 else ""


def _size(value: int | None) -> Cell:
    return Cell("-" if value is None else format_bytes(value))


def _chosen(table: Result, rows: Sequence[Record], place: str) -> Section:
    """Return some columns of a table; of growth, the first rows."""
    title, names = _SHOWN[table.name]
    most = _MOST if table.name == "memory_leaks" else len(rows)
    columns = [_Shown(name, heading) for name, heading in names]
    blocks: list[Block] = [_shown(table, columns, rows[:most])]
    if len(rows) > most:
        blocks.append(Line(f"{plural(len(rows) - most, 'more row')} not shown.", is_faint=True))
    return Section(f"{title}{place}", tuple(blocks))


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
    return Table(columns=tuple(columns), rows=tuple(rows), look="numbers")


def _cell(field: Field, value: Any) -> Cell:
    return Cell("-" if value is None else format_value(value, field.unit))


def _findings(tables: Mapping[str, Result], title: str = "Findings") -> Iterator[Block]:
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
        yield Section(title, blocks)
