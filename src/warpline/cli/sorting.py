"""The order of rows that ``warpline stats --sort`` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    import dataclasses

    from warpline import result
    from warpline.result import Document, Result, Skipped
else:
    dataclasses = lazy("dataclasses")
    result = lazy("warpline.result")

# Values of sort_by in key_averages().table() of PyTorch, with cuda and xpu replaced by device.
_OF_PYTORCH = {
    "cpu_time": "host_mean_ns",
    "cpu_time_total": "host_ns",
    "self_cpu_time_total": "self_host_ns",
    "device_time": "device_mean_ns",
    "device_time_total": "device_ns",
    "self_device_time_total": "self_device_ns",
    "cpu_memory_usage": "host_bytes",
    "self_cpu_memory_usage": "self_host_bytes",
    "device_memory_usage": "device_bytes",
    "self_device_memory_usage": "self_device_bytes",
    "count": "calls",
}
_DIRECTIONS = {"asc": True, "desc": False}


def sorted_by(document: Document, order: str) -> Document:
    """Return the document with tables sorted by the field of `order`, if they have it."""
    wanted, _, direction = order.rpartition(":")
    if direction.lower() not in _DIRECTIONS:
        wanted, direction = order, "desc"
    ascending = _DIRECTIONS[direction.lower()]
    tables = [section for section in document.sections if isinstance(section, result.Result)]
    fields = {table.name: _field(table, wanted) for table in tables}
    if tables and not any(fields.values()):
        known = dict.fromkeys(field.name for table in tables for field in table.fields)
        raise UsageError(f"--sort: no table has a field {wanted!r}", hint=f"use {', '.join(known)}")
    sections: list[Result | Skipped] = []
    for section in document.sections:
        name = fields.get(section.name) if isinstance(section, result.Result) else None
        if isinstance(section, result.Result) and name is not None:
            sections.append(section.sorted_by(name, ascending=ascending))
        else:
            sections.append(section)
    return dataclasses.replace(document, sections=tuple(sections))


def _field(table: Result, wanted: str) -> str | None:
    """Return the name of the table's field that a word refers to, or None."""
    word = wanted.lower()
    on_device = word.replace("cuda", "device").replace("xpu", "device")
    fitting = (
        field.name
        for meant in (word, _OF_PYTORCH.get(on_device))
        for field in table.fields
        if meant in {field.name.lower(), field.heading.lower()}
    )
    return next(fitting, None)
