"""The memory chart as a table of its links, and the tables of memory units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.render.section_bodies.drawing import Drawing, table


def memory_chart(memory: Mapping[str, Any], drawing: Drawing) -> Iterator[str]:
    """Yield a row for each link with traffic, then the shares of hits and peaks of the units."""
    labels = {node["id"]: node["label"] for node in memory["nodes"]}
    rows = [
        (
            f"{labels[edge['from']]} -> {labels[edge['to']]}",
            drawing.number(edge["requests"] if edge["counts"] == "instructions" else None),
            drawing.number(edge["requests"] if edge["counts"] == "requests" else None),
            drawing.number(edge["bytes"], "byte"),
            drawing.number(edge["bytes_per_s"], "byte/s"),
            drawing.number(edge["ratio"], "ratio"),
        )
        for edge in memory["edges"]
        if edge["requests"] or edge["bytes"]
    ]
    headings = ("Instructions", "Requests", "Bytes", "Throughput", "Of Peak")
    if rows:
        yield from table(("Traffic", *headings), rows)
    for node in memory["nodes"]:
        if node["ratio"] is not None:
            ratio = drawing.number(node["ratio"], "ratio")
            yield f"{node['label']}: {node['ratio_label'].lower()} {ratio}"


def memory_tables(memory: Mapping[str, Any], drawing: Drawing) -> Iterator[str]:
    """Yield the tables of units, without columns that have no share, and no number but 0."""
    for number, of in enumerate(memory["tables"]):
        if number:
            yield ""
        used = [place for place, column in enumerate(of["columns"]) if _is_used(of, place, column)]
        columns = [of["columns"][place] for place in used]
        rows = [(row[0], *_cells(row, used, columns, drawing)) for row in of["rows"]]
        yield from table((of["title"], *(column["name"] for column in columns)), rows)


def _is_used(of: Mapping[str, Any], place: int, column: Mapping[str, str]) -> bool:
    numbers = [row[place + 1] for row in of["rows"]]
    if column["unit"] == "ratio":
        return any(number is not None for number in numbers)
    return any(numbers)


def _cells(
    row: Sequence[Any], used: Sequence[int], columns: Sequence[Mapping[str, str]], drawing: Drawing
) -> Iterator[str]:
    for place, column in zip(used, columns, strict=True):
        yield drawing.number(row[place + 1], column["unit"])
