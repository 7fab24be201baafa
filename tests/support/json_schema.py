"""Checks a JSON value against a schema, for the subset of JSON Schema that our schemas use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "boolean": (bool,),
}
_ANNOTATIONS = {"$schema", "$defs", "title", "description"}


def violations(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return the errors of a value, one line each; unknown keywords are errors."""
    return list(_check(value, schema, schema, "$"))


def _check(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    for keyword, wanted in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        if keyword == "$ref":
            found = root["$defs"][wanted.removeprefix("#/$defs/")]
            yield from _check(value, found, root, where)
        elif keyword == "properties":
            for name, inner in wanted.items():
                if isinstance(value, dict) and name in value:
                    yield from _check(value[name], inner, root, f"{where}.{name}")
        elif keyword == "items":
            for place, item in enumerate(value if isinstance(value, list) else ()):
                yield from _check(item, wanted, root, f"{where}[{place}]")
        elif not _holds(value, keyword, wanted):
            yield f"{where}: {str(value)[:80]!r} against {keyword} {wanted}"


def _holds(value: Any, keyword: str, wanted: Any) -> bool:
    if keyword not in _CHECKS:
        raise ValueError(f"the schema uses {keyword!r}, which is not checked")
    return _CHECKS[keyword](value, wanted)


def _is_of_type(value: Any, wanted: Any) -> bool:
    names = wanted if isinstance(wanted, list) else [wanted]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES[name]) for name in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


_CHECKS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": _is_of_type,
    "required": lambda value, names: not isinstance(value, dict) or {*names} <= {*value},
    "enum": lambda value, known: value in known,
    "const": lambda value, wanted: bool(value == wanted),
    "minimum": lambda value, least: not _is_number(value) or value >= least,
    "maximum": lambda value, most: not _is_number(value) or value <= most,
    "pattern": lambda value, text: not isinstance(value, str) or bool(re.search(text, value)),
}
