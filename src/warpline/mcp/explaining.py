"""The tool ``explain``: what a table, a rule, a column or a term means."""

from __future__ import annotations

from collections.abc import Iterator

from warpline import plugins
from warpline.derived.kernel_limits.rules import KERNEL_RULES
from warpline.documents import explanations
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.result import ANALYSES, RULES
from warpline.schema import TABLES

_WIDTH = 1000  # a paragraph is a line, for who reads it has no terminal


def explain(opened: Opened, *, name: str | None = None, cursor: str | None = None) -> str:
    """Return the documentation of a name, or all names."""
    if name is None:
        return page({}, [Section("names", list(_names()), ("kind", "name", "title"))], cursor)
    text = explanations.explanation(name.split(":")[0], _WIDTH)
    lines = [line for line in text.splitlines() if line.strip()]
    return page({"name": name}, [Section("text", lines)], cursor)


def _names() -> Iterator[list[str]]:
    plugins.load("analyses")
    plugins.load("kernel-rules")
    for item in explanations.terms():
        yield ["term", item.names[0], ""]
    for rule in sorted(RULES, key=lambda item: item.name):
        yield ["rule", rule.name, rule.title]
    for kernel_rule in sorted(KERNEL_RULES, key=lambda item: item.name):
        yield ["rule of kernels", kernel_rule.name, kernel_rule.title]
    for table in sorted(ANALYSES, key=lambda item: item.name):
        yield ["table", table.name, table.title]
    for spec in TABLES.values():
        yield ["events", spec.name, ""]
