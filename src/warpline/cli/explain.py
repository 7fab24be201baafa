"""``warpline explain``: the documentation of a table or a rule."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.cli.stdout import text_width, write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    import difflib
    import inspect
    import textwrap

    from warpline import plugins, result, schema
    from warpline.derived.kernel_limits import rules as kernel_rules
    from warpline.derived.kernel_limits.rules import KernelRule
    from warpline.result import Analysis, Rule
    from warpline.schema import Column, TableSpec
else:
    difflib = lazy("difflib")
    inspect = lazy("inspect")
    textwrap = lazy("textwrap")
    plugins = lazy("warpline.plugins")
    result = lazy("warpline.result")
    schema = lazy("warpline.schema")
    kernel_rules = lazy("warpline.derived.kernel_limits.rules")

NAME = "explain"
HELP = "explain a table or a rule"

_HEADING = re.compile(r"^([A-Z][a-z ]+): +", re.MULTILINE)
_INDENT = "  "
_SEE_LIST = "run warpline list for the names"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} NAME"
    parser.add_argument(
        "table",
        nargs="?",
        metavar="NAME",
        help="a table of warpline stats, a rule of warpline analyze or kernels, or a trace table",
    )


def run(args: Namespace) -> int:
    """Print the documentation of a table or rule."""
    if args.table is None:
        raise UsageError("missing NAME argument", hint=_SEE_LIST)

    plugins.load("analyses")
    name = args.table.split(":")[0]
    if name in schema.TABLES:
        return write_text(trace_table(schema.TABLES[name]))
    if name in result.RULES:
        return write_text(rule(result.RULES.get(name), "analyze"))
    of_kernels = kernel_rules.KERNEL_RULES
    if name in of_kernels:
        return write_text(rule(of_kernels.get(name), "kernels"))
    if name not in result.ANALYSES:
        rules = [*result.RULES.names(), *of_kernels.names()]
        known = [*result.ANALYSES.names(), *rules, *schema.TABLES]
        raise UsageError(f"unknown table or rule {name!r}", hint=_near(name, known))
    return write_text(table(result.ANALYSES.get(name)))


def table(item: Analysis) -> str:
    """Return the documentation of a table of `stats`."""
    aliases = [alias for alias, name in result.ANALYSES.aliases().items() if name == item.name]
    called = f" (alias {', '.join(aliases)})" if aliases else ""
    fields = [(field.name, field.doc) for field in item.fields]
    parts = [f"{item.name}{called}: {item.title}", *_prose(item.doc)]
    if item.needs:
        hint = f" To record them: {item.missing_hint}." if item.missing_hint else ""
        parts.append(_section("Requires", f"Rows of {' or '.join(item.needs)}.{hint}"))
    if item.arguments:
        arguments = [(f"{item.name}:{name}", doc) for name, doc in item.arguments.items()]
        parts.append(_columns("Arguments", arguments))
    parts.append(_columns("Columns (names in JSON and Python)", fields))
    return "\n\n".join(parts)


def rule(item: Rule | KernelRule, command: str) -> str:
    """Return the documentation of a rule of a command: `analyze` or `kernels`."""
    heading = f"{item.name} (rule of warpline {command}): {item.title}"
    return "\n\n".join([heading, *_prose(item.doc)])


def trace_table(spec: TableSpec) -> str:
    """Return the documentation of a trace table."""
    columns = [(column.name, _meaning(column)) for column in spec.columns]
    return "\n\n".join(
        [
            f"{spec.name} (trace table)",
            _wrap(spec.doc),
            _columns("Columns", columns),
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


def _prose(docstring: str) -> list[str]:
    """Return the summary and the headed paragraphs of a docstring, wrapped."""
    paragraphs = re.sub(r"\n +", " ", inspect.cleandoc(docstring)).splitlines()
    parts = []
    for paragraph in filter(None, paragraphs):
        heading = _HEADING.match(paragraph)
        if heading is None:
            parts.append(_wrap(paragraph))
        else:
            parts.append(_section(heading[1], paragraph[heading.end() :]))
    return parts


def _section(heading: str, text: str) -> str:
    return f"{heading}\n{_wrap(text, _INDENT)}"


def _columns(heading: str, rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    later = " " * (len(_INDENT) + width + 2)
    lines = [_wrap(doc, f"{_INDENT}{name:{width}}  ", later) for name, doc in rows]
    return "\n".join([heading, *lines])


def _wrap(text: str, first: str = "", later: str | None = None) -> str:

    return textwrap.fill(
        text,
        text_width(),
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _near(name: str, known: Sequence[str]) -> str:

    near = difflib.get_close_matches(name, known, n=3)
    near = near or [item for item in known if name and name in item][:3]
    return f"did you mean {' or '.join(near)}?" if near else _SEE_LIST
