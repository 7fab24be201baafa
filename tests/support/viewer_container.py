"""Reads a container by ``viewer/CONTAINER.md``, value by value: slow, without Warpline's code."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Event:
    """One event as seen by the page."""

    start_ns: int
    end_ns: int
    name: str
    category: str
    row: int | None = None
    table: str | None = None
    links: dict[str, int | None] = field(default_factory=dict)
    value: float | None = None
    stack: int | None = None
    weight: int | None = None


class Decoded:
    """A container's head and blocks."""

    def __init__(self, head: dict[str, Any], blocks: list[bytes]) -> None:
        self.head = head
        self.raw = [gzip.decompress(data) for data in blocks]
        for described, raw, data in zip(head["blocks"], self.raw, blocks, strict=True):
            assert (described["raw_bytes"], described["bytes"]) == (len(raw), len(data))
        self.names = json.loads(self.raw[1])
        self.rows = {row["id"]: row for row in head["rows"]}
        self._events: dict[str, list[Event]] = {}
        assert len(self.rows) == len(head["rows"])

    def events(self, row_id: str) -> list[Event]:
        """Return the events of a row."""
        if row_id in self._events:
            return self._events[row_id]
        row = self.rows[row_id]
        found: list[Event] = []
        for part in row["parts"]:
            columns = self.columns(part)
            assert {len(values) for values in columns.values()} == {part["count"]}
            found += self._part(row, part["first_ns"], columns)
        self._events[row_id] = found
        return found

    def forget(self) -> None:
        """Decode again on the next access, because the bytes have changed."""
        self._events.clear()

    def columns(self, part: dict[str, Any]) -> dict[str, list[Any]]:
        """Return the columns of a part or of attributes by name."""
        raw, offset = self.raw[part["block"]], part["offset"]
        found = {}
        for column in part["columns"]:
            size = part["count"] * column["planes"]
            data = raw[offset : offset + size]
            assert len(data) == size
            found[column["name"]] = decode(data, part["count"], column)
            offset += size
        return found

    def _part(self, row: dict[str, Any], first: int, columns: dict[str, list[Any]]) -> list[Event]:
        links = [link["name"] for link in self.head["links"] if link["name"] in columns]
        found, time = [], first
        for place in range(len(columns["gap"])):
            start = time + columns["gap"][place]
            end = start + (columns["duration"][place] if "duration" in columns else 0)
            name = columns["name"][place] if "name" in columns else None
            table = columns["table"][place] if "table" in columns else row["table"]
            found.append(
                Event(
                    start,
                    end,
                    "" if name is None else self.names["texts"][name],
                    "" if name is None else self._category(name),
                    columns["row"][place] if "row" in columns else None,
                    None if table is None else self.head["tables"][table],
                    {link: columns[link][place] for link in links},
                    columns["value"][place] if "value" in columns else None,
                    columns["stack"][place] if "stack" in columns else None,
                    columns["weight"][place] if "weight" in columns else None,
                )
            )
            time = end
        return found

    def _category(self, name: int) -> str:
        return str(self.head["categories"][self.names["categories"][name]]["name"])

    def result(self, name: str) -> dict[str, Any]:
        """Return a table."""
        block = next(item["block"] for item in self.head["results"] if item["name"] == name)
        content: dict[str, Any] = json.loads(self.raw[block])
        return content

    def attributes(self, table: str) -> dict[str, list[Any]]:
        """Return a table's rows as shown in the details panel, with decoded texts."""
        described = next(item for item in self.head["attributes"] if item["table"] == table)
        found = self.columns(described)
        for column in described["columns"]:
            if column.get("texts"):
                values = found[column["name"]]
                texts = self.names["texts"]
                found[column["name"]] = [None if v is None else texts[v] for v in values]
        return found


def decode(data: bytes, count: int, column: dict[str, Any]) -> list[Any]:
    """Return the values of one column."""
    planes, encoding = column["planes"], column.get("encoding", "plain")
    sliced = (data[plane * count : (plane + 1) * count] for plane in range(planes))
    raws = [bytes(value) for value in zip(*sliced, strict=True)]
    if encoding in {"float32", "float64"}:
        return [struct.unpack("<f" if planes == 4 else "<d", raw)[0] for raw in raws]
    coded = [int.from_bytes(raw, "little") for raw in raws]
    if encoding.endswith("delta"):
        running = 0
        for row, value in enumerate(coded):
            running += value // 2 if value % 2 == 0 else -(value + 1) // 2
            coded[row] = running
    if encoding.startswith("optional"):
        return [None if value == 0 else value - 1 for value in coded]
    return coded
