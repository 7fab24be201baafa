"""Write the pages that follow from the code: schema, tables, commands, the README's examples.

Usage: python docs/generate.py [--check]

With --check nothing is written; the exit status is 1 if a page differs from what it should be.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from warpline import plugins
from warpline.cli import main
from warpline.cli.parser import Command, commands, parser_of
from warpline.result import ANALYSES, Analysis, Field
from warpline.schema import SCHEMA_VERSION, TABLES, Column, TableSpec
from warpline.units import Unit

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by docs/generate.py; change the code, then run `make docs`. -->"

SCHEMA_INTRODUCTION = (
    f"Schema version {SCHEMA_VERSION}. Times are int64 ns from the trace's origin, intervals"
    " are half-open. A column that may be null has a validity mask beside its values."
    " A reference holds row numbers of the table it names; `string` is the pool of texts."
    " In a DataFrame a text stands in place of its number, and its column has no `_id`."
)

TABLES_INTRODUCTION = (
    "What `warpline stats -r NAME` prints, and `warpline.stats(trace, NAME)` returns. Names,"
    " headings, order and digits are those of `nsys stats`; where we deviate is listed in"
    " [differences from nsys](differences-from-nsys.md). JSON has the keys and raw values of the"
    " first column: ns, bytes, ratios in [0, 1]."
)

COMMANDS_INTRODUCTION = (
    "`warpline RECORDING` is short for `warpline summary RECORDING`. Data goes to standard output,"
    " everything else to standard error. The exit status is 0 if all went well, 1 if it did not,"
    " 2 if the words were wrong, and 3 if there are findings as severe as --fail-on names."
)

SHOWN = re.compile(
    r"^(?P<command>```console\n\$ warpline (?P<words>.*)\n)(?:.*\n)*?```$", re.MULTILINE
)

HEADING = re.compile(
    r"^(What it measures|Why it matters|How it is computed|Limits|Source):", re.MULTILINE
)


def table_of(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a `|` inside a cell is escaped."""
    names = list(headers)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def schema_page() -> str:
    """Return the page about the tables of a trace."""
    parts = [
        NOTE,
        "# The tables of a trace",
        SCHEMA_INTRODUCTION,
        "\n".join(f"- [{spec.name}](#{spec.name}): {spec.doc}" for spec in TABLES.values()),
        *(_schema_section(spec) for spec in TABLES.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _schema_section(spec: TableSpec) -> str:
    parts = [f"## {spec.name}", spec.doc]
    if spec.order:
        parts.append("Rows are in the order of: " + ", ".join(f"`{name}`" for name in spec.order))
    rows = (_schema_row(column) for column in spec.columns)
    parts.append(table_of(("column", "type", "unit", "refers to", "meaning"), rows))
    return "\n\n".join(parts)


def _schema_row(column: Column) -> tuple[str, ...]:
    kind = column.dtype.value + (", may be null" if column.nullable else "")
    unit = "" if column.unit in {Unit.NONE, Unit.ID} else column.unit.value
    meaning = column.doc
    if column.labels:
        meaning += " " + ", ".join(f"{value} {label}" for value, label in column.labels.items())
    return f"`{column.name}`", kind, unit, column.ref or "", meaning


def tables_page() -> str:
    """Return the page about the tables that `warpline stats` computes."""
    plugins.load("analyses")
    items = sorted(ANALYSES, key=lambda item: item.name)
    lines = (f"- [{item.name}](#{item.name}): {item.title}" for item in items)
    parts = [NOTE, "# Tables", TABLES_INTRODUCTION, "\n".join(lines)]
    return "\n\n".join([*parts, *(_table_section(item) for item in items)]) + "\n"


def _table_section(item: Analysis) -> str:
    aliases = [alias for alias, name in ANALYSES.aliases().items() if name == item.name]
    facts = [f"Reads: {' or '.join(f'[{need}](schema.md#{need})' for need in item.needs)}."]
    if item.default_rank is not None:
        facts.append("Printed by `warpline stats` when no table is named.")
    if aliases:
        facts.append("Also called " + ", ".join(f"`{alias}`" for alias in aliases) + ".")
    arguments = "\n".join(f"- `:{name}`: {doc}" for name, doc in item.arguments.items())
    rows = (_field_row(field) for field in item.fields)
    columns = table_of(("JSON key", "unit", "heading", "meaning"), rows)
    parts = [f"## {item.name}", _prose(item.doc), " ".join(facts), arguments, columns]
    return "\n\n".join(part for part in parts if part)


def _prose(docstring: str) -> str:
    """Return a docstring with its headings in bold, each at the start of a paragraph."""
    unwrapped = re.sub(r"\n +", " ", inspect.cleandoc(docstring))
    return re.sub(r"\n+(?=\*\*)", "\n\n", HEADING.sub(r"**\1:**", unwrapped))


def _field_row(field: Field) -> tuple[str, ...]:
    unit = "" if field.unit is Unit.NONE else field.unit.value
    return f"`{field.name}`", unit, field.heading, field.doc


def commands_page() -> str:
    """Return the page about the command line."""
    items = commands()
    lines = (f"- [{item.NAME}](#{item.NAME}): {item.HELP}" for item in items)
    parts = [NOTE, "# Commands", COMMANDS_INTRODUCTION, "\n".join(lines)]
    return "\n\n".join([*parts, *(_command_section(item) for item in items)]) + "\n"


def _command_section(item: Command) -> str:
    parser = parser_of(item)
    usage = parser.usage or parser.format_usage().removeprefix("usage: ").strip()
    rows = (
        (f"`{_option(action)}`", action.help or "")
        for action in parser._actions  # noqa: SLF001 - argparse has no public way to list them
    )
    parts = [f"## {item.NAME}", parser.description or "", f"    {usage}"]
    parts.append(table_of(("word", "meaning"), rows))
    return "\n\n".join([*parts, parser.epilog] if parser.epilog else parts)


def _option(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return f"{names} {value}".strip()


def readme() -> str:
    """Return the README with the output of the commands that it shows."""
    os.environ["COLUMNS"] = "80"

    def run(shown: re.Match[str]) -> str:
        out, talk = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(ROOT),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(talk),
        ):
            status = main(shlex.split(shown["words"]))
        assert status == 0, f"warpline {shown['words']} ended with {status}: {talk.getvalue()}"
        return f"{shown['command']}{out.getvalue()}```"

    return SHOWN.sub(run, (ROOT / "README.md").read_text(encoding="utf-8"))


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/schema.md": schema_page,
    "docs/tables.md": tables_page,
    "docs/commands.md": commands_page,
    "README.md": readme,
}


def update() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description="Write the pages that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = ROOT / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'differs from the code; run `make docs`' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(update())
