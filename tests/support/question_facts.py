"""Facts in answers of the tools of `warpline mcp`, taken out by program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fact_of(answer: Mapping[str, Any], fact: Mapping[str, Any]) -> Any:
    """Return the value that a question's fact names in the answer of a tool.

    Args:
        answer: The parsed JSON of the answer.
        fact: ``path``, the keys of a value; or ``section`` with ``where``, values of columns that
            choose a row (the first one that has them), ``column``, and ``minus``, a column to
            subtract.
    """
    if "path" in fact:
        value: Any = answer
        for key in fact["path"]:
            value = value[key]
        return value
    found = answer[fact["section"]]
    rows = found
    if isinstance(found, Mapping):
        rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    chosen = next(row for row in rows if fact["where"].items() <= row.items())
    value = chosen[fact["column"]]
    return value - chosen[fact["minus"]] if "minus" in fact else value
