"""``warpline list``: tables, rules, readable formats and output formats."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from warpline.cli.startup import lazy
from warpline.cli.stdout import Facts, write_facts

if TYPE_CHECKING:
    from warpline import api, exporters, plugins, render, result, schema
    from warpline.derived.kernel_limits import rules as kernel_rules
else:
    api = lazy("warpline.api")
    exporters = lazy("warpline.exporters")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")
    schema = lazy("warpline.schema")
    kernel_rules = lazy("warpline.derived.kernel_limits.rules")

NAME = "list"
HELP = "list tables, rules, readable formats and output formats"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "-f", "--format", metavar="FORMAT", default="text", help="output format: text, json"
    )


def run(args: Namespace) -> int:
    """Print the lists."""
    return write_facts(args, facts(), text)


def facts() -> Facts:
    """Return tables of `stats`, rules, trace tables, readers, and output formats."""
    plugins.load("renderers")
    plugins.load("exporters")
    plugins.load("analyses")
    default = api.default_tables()
    return {
        "tables": [
            {
                "name": item.name,
                "title": item.title,
                "aliases": _aliases(result.ANALYSES.aliases(), item.name),
                "arguments": dict(item.arguments),
                "is_default": item.name in default,
            }
            for item in sorted(result.ANALYSES, key=lambda item: item.name)
        ],
        "rules": [{"name": item.name, "title": item.title} for item in result.RULES],
        "kernel_rules": [
            {"name": item.name, "title": item.title} for item in kernel_rules.KERNEL_RULES
        ],
        "trace_tables": [{"name": spec.name, "doc": spec.doc} for spec in schema.TABLES.values()],
        "readers": api.formats(),
        "formats": [
            {
                "name": item.name,
                "doc": item.doc,
                "aliases": _aliases(render.RENDERERS.aliases(), item.name),
            }
            for item in render.RENDERERS
        ],
        "export_formats": [{"name": item.name, "doc": item.doc} for item in exporters.EXPORTERS],
    }


def text(available: Facts) -> str:
    """Return the lists as text."""
    tables = [
        (f"{'*' if item['is_default'] else ' '} {_called(item)}", item["title"])
        for item in available["tables"]
    ]
    readers = [
        (f"  {item['name']} ({' '.join(item['extensions'])})", item["doc"])
        for item in available["readers"]
    ]
    return "\n\n".join(
        [
            _block("Tables: warpline stats -r NAME (*: printed by default)", tables),
            _block(
                "Rules of warpline analyze: warpline explain NAME",
                ((f"  {item['name']}", item["title"]) for item in available["rules"]),
            ),
            _block(
                "Rules of warpline kernels: warpline explain NAME",
                ((f"  {item['name']}", item["title"]) for item in available["kernel_rules"]),
            ),
            _block(
                "Trace tables, the input of the tables above: warpline explain NAME",
                (
                    (f"  {item['name']}", item["doc"].partition(". ")[0].rstrip(".") + ".")
                    for item in available["trace_tables"]
                ),
            ),
            _block("Readable formats", readers),
            _block(
                "Output formats: --format NAME",
                ((f"  {_called(item)}", item["doc"]) for item in available["formats"]),
            ),
            _block(
                "Export formats: warpline export -t NAME",
                ((f"  {item['name']}", item["doc"]) for item in available["export_formats"]),
            ),
        ]
    )


def _block(heading: str, lines: Iterable[tuple[str, str]]) -> str:
    pairs = list(lines)
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join([heading, *(f"{name:{width}}  {doc}" for name, doc in pairs)])


def _called(item: Mapping[str, Any]) -> str:
    aliases = f" ({', '.join(item['aliases'])})" if item["aliases"] else ""
    return f"{item['name']}{aliases}"


def _aliases(every: Mapping[str, str], name: str) -> list[str]:
    return [alias for alias, target in every.items() if target == name]
