"""Tables of analyses as blocks: some columns with readable units, the first rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.presentation.blocks import Block, Cell, Column, Line, Row, Section, Table
from warpline.presentation.kernel_names import short_names
from warpline.result import Field, Result
from warpline.units import Unit, format_value, plural

_NAMES = ("name", "class_name")  # columns whose texts are from the recording
# What is shown of tables: title, and columns with their headings.
_SHOWN: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "kernels": (
        "Kernels",
        (
            *(("name", "kernel"), ("category", "category"), ("step_ns", "per step")),
            *(("share_ratio", "share"), ("step_instances", "instances"), ("median_ns", "median")),
        ),
    ),
    "module_sum": (
        "Modules by class",
        (
            *(("class_name", "class"), ("device_ns", "GPU per step"), ("total_ratio", "share")),
            *(("forward_ns", "forward"), ("backward_ns", "backward"), ("modules", "modules")),
        ),
    ),
    "op_sum": (
        "Operators of the whole recording",
        (
            *(("name", "operator"), ("self_device_ns", "GPU"), ("self_device_ratio", "share")),
            *(("self_host_ns", "CPU"), ("calls", "calls")),
        ),
    ),
}


def first_rows(tables: Sequence[Result], *, most: int) -> Iterator[Block]:
    """Yield a section with the first rows of each table."""
    for result in tables:
        title, headings = _SHOWN[result.name.partition(":")[0]]
        yield _first_rows(result, title, headings, most)


def _first_rows(
    result: Result, title: str, headings: Sequence[tuple[str, str]], most: int
) -> Section:
    fields = {field.name: field for field in result.fields}
    columns = tuple(
        Column(heading, is_number=fields[name].unit is not Unit.NONE) for name, heading in headings
    )
    values = (result.columns[name].to_list()[:most] for name, _ in headings)
    kernels = result.columns["name"].to_list()[:most] if result.name == "kernels" else []
    short = short_names(map(str, kernels))
    rows = tuple(
        Row(
            tuple(
                _cell(fields[name], value, short)
                for (name, _), value in zip(headings, row, strict=True)
            )
        )
        for row in zip(*values, strict=True)
    )
    blocks: list[Block] = [Table(columns=columns, rows=rows)]
    if len(result) > most:
        blocks.append(Line(f"{plural(len(result) - most, 'more row')} not shown.", is_faint=True))
    return Section(title, tuple(blocks))


def _cell(field: Field, value: Any, short: Mapping[str, str]) -> Cell:
    if value is None:
        return Cell("-")
    if field.name in _NAMES:
        return Cell(short.get(value, value), is_code=True)
    return Cell(format_value(value, field.unit))
