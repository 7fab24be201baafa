"""Kernels by samples, as `warpline kernels` shows them before their lines."""

from __future__ import annotations

from dataclasses import replace

from warpline.documents.tables import document
from warpline.presentation.kernel_names import short_names
from warpline.result import Document, Numbers, Result, Texts, Values
from warpline.trace import Trace
from warpline.units import plural

NAME = "kernel_samples"
_MOST = 10  # kernels on a screen

_SHOWN = ("samples", "samples_ratio", "issued_ratio", "stall_ratio", "stall", "kernel")


def hot_kernels(trace: Trace) -> Document:
    """Return the kernels with most samples, with short names at the end of each row."""
    found = document(trace, [NAME])
    sections = (_on_screen(item) if isinstance(item, Result) else item for item in found.sections)
    return replace(found, sections=tuple(sections))


def _on_screen(result: Result) -> Result:
    kernels = result.columns["kernel"]
    assert isinstance(kernels, Texts)
    short = short_names(kernels.values)
    columns = {name: _first(result.columns[name]) for name in _SHOWN}
    columns["kernel"] = Texts(kernels.codes[:_MOST], [short[name] for name in kernels.values])
    fields = {field.name: field for field in result.fields}
    more = len(result) - _MOST
    note = f"{plural(more, 'more kernel')}: warpline stats -r {NAME} lists all"
    return replace(
        result,
        fields=tuple(fields[name] for name in columns),
        columns=columns,
        notes=(*result.notes, *([note] if more > 0 else [])),
    )


def _first(column: Values) -> Values:
    if isinstance(column, Texts):
        return Texts(column.codes[:_MOST], column.values)
    return Numbers(column.values[:_MOST], None if column.valid is None else column.valid[:_MOST])
