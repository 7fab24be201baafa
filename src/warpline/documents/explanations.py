"""What `warpline explain` says of tables, rules and terms."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from warpline import plugins
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.result import ANALYSES, RULES, Analysis, Rule
from warpline.schema import TABLES, Column, TableSpec

if TYPE_CHECKING:
    import difflib

    from warpline.derived.kernel_limits import rules as kernel_rules
    from warpline.derived.kernel_limits.rules import KernelRule
else:
    difflib = lazy("difflib")
    kernel_rules = lazy("warpline.derived.kernel_limits.rules")

_HEADING = re.compile(r"^([A-Z][a-z ]+): +", re.MULTILINE)
_INDENT = "  "
_SEE_LIST = "run warpline list for the names"
_WIDTH = 100
_NO_WORD = "\N{EN DASH}"  # that a tool has no such term


class Term(NamedTuple):
    """A term of docs/terms.md.

    Attributes:
        names: What it is called; several words for one thing.
        meaning: One line.
        nsys: The word of Nsight Systems; empty for none.
        pytorch: The word of PyTorch; empty for none.
    """

    names: tuple[str, ...]
    meaning: str
    nsys: str
    pytorch: str


def explanation(name: str, width: int = _WIDTH) -> str:
    """Return the documentation of a table, a rule, a table of a trace, or a term.

    Raises:
        UsageError: There is none of that name.
    """
    plugins.load("analyses")
    plugins.load("kernel-rules")
    of_kernels = kernel_rules.KERNEL_RULES
    if name in TABLES:
        return trace_table(TABLES[name], width)
    if name in RULES:
        return rule(RULES.get(name), "analyze", width)
    if name in of_kernels:
        return rule(of_kernels.get(name), "kernels", width)
    if name in ANALYSES:
        return table(ANALYSES.get(name), width)
    known = {word.lower(): item for item in terms() for word in item.names}
    if name.lower() in known:
        return term(known[name.lower()], width)
    names = list(
        dict.fromkeys([*ANALYSES.names(), *RULES.names(), *of_kernels.names(), *TABLES, *known])
    )
    raise UsageError(f"unknown table, rule or term {name!r}", hint=_near(name, names))


@functools.cache
def terms() -> tuple[Term, ...]:
    """Return the terms of docs/terms.md, of which the package has a copy."""
    return terms_of(
        resources.files("warpline").joinpath("data", "terms.md").read_text(encoding="utf-8")
    )


def terms_of(text: str) -> tuple[Term, ...]:
    """Return the terms in a text like docs/terms.md."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return tuple(
        Term(
            tuple(word.strip() for word in row[0].split(",")),
            row[1],
            *("" if word.strip() == _NO_WORD else word for word in row[2:]),
        )
        for row in rows
        if len(row) == 4 and row[0] != "term"
    )


def term(item: Term, width: int = _WIDTH) -> str:
    """Return the explanation of a term."""
    called = {"Nsight Systems": item.nsys, "PyTorch": item.pytorch}
    others = [f"In {tool}: {word}." for tool, word in called.items() if word]
    meaning = item.meaning[0].upper() + item.meaning[1:]
    return "\n\n".join(
        [f"{', '.join(item.names)} (term)", _wrap(f"{meaning}.", width)]
        + ([_wrap(" ".join(others), width)] if others else [])
    )


def table(item: Analysis, width: int = _WIDTH) -> str:
    """Return the documentation of a table of `stats`."""
    aliases = [alias for alias, name in ANALYSES.aliases().items() if name == item.name]
    called = f" (alias {', '.join(aliases)})" if aliases else ""
    fields = [(field.name, field.doc) for field in item.fields]
    parts = [f"{item.name}{called}: {item.title}", *_prose(item.doc, width)]
    if item.needs:
        hint = f" To record them: {item.missing_hint}." if item.missing_hint else ""
        parts.append(_section("Requires", f"Rows of {' or '.join(item.needs)}.{hint}", width))
    if item.arguments:
        arguments = [(f"{item.name}:{name}", doc) for name, doc in item.arguments.items()]
        parts.append(_columns("Arguments", arguments, width))
    parts.append(_columns("Columns (names in JSON and Python)", fields, width))
    return "\n\n".join(parts)


def rule(item: Rule | KernelRule, command: str, width: int = _WIDTH) -> str:
    """Return the documentation of a rule of a command: `analyze` or `kernels`."""
    heading = f"{item.name} (rule of warpline {command}): {item.title}"
    return "\n\n".join([heading, *_prose(item.doc, width)])


def trace_table(spec: TableSpec, width: int = _WIDTH) -> str:
    """Return the documentation of a trace table."""
    columns = [(column.name, _meaning(column)) for column in spec.columns]
    return "\n\n".join(
        [
            f"{spec.name} (trace table)",
            _wrap(spec.doc, width),
            _columns("Columns", columns, width),
            f"In Python: warpline.open(RECORDING)[{spec.name!r}]",
        ]
    )


def _meaning(column: Column) -> str:
    meaning = column.doc
    if column.labels:
        meaning += " " + ", ".join(f"{value} {label}" for value, label in column.labels.items())
        meaning += "."
    if column.ref is not None and column.ref != "string":
        meaning += f" Row of {column.ref}."
    return f"{meaning} May be null." if column.nullable else meaning


def _prose(docstring: str, width: int) -> list[str]:
    """Return the summary and the headed paragraphs of a docstring, wrapped."""
    paragraphs = re.sub(r"\n +", " ", inspect.cleandoc(docstring)).splitlines()
    parts = []
    for paragraph in filter(None, paragraphs):
        heading = _HEADING.match(paragraph)
        if heading is None:
            parts.append(_wrap(paragraph, width))
        else:
            parts.append(_section(heading[1], paragraph[heading.end() :], width))
    return parts


def _section(heading: str, text: str, width: int) -> str:
    return f"{heading}\n{_wrap(text, width, _INDENT)}"


def _columns(heading: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    longest = max(len(name) for name, _ in rows)
    later = " " * (len(_INDENT) + longest + 2)
    lines = [_wrap(doc, width, f"{_INDENT}{name:{longest}}  ", later) for name, doc in rows]
    return "\n".join([heading, *lines])


def _wrap(text: str, width: int, first: str = "", later: str | None = None) -> str:

    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    near = near or [item for item in known if name and name in item][:3]
    return f"did you mean {' or '.join(near)}?" if near else _SEE_LIST
