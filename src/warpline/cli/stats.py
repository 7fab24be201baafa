"""``warpline stats``: tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_filters, add_recordings, open_trace
from warpline.cli.output import Output, add_output, add_table_layout, say_failed, say_skipped
from warpline.cli.startup import load_api
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.result import Document, Result, Skipped

NAME = "stats"
HELP = "tables such as cuda_gpu_kern_sum, with the names and numbers of nsys stats"

# What key_averages().table(sort_by=...) of PyTorch takes, with cuda and xpu read as device.
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


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-r",
        "--report",
        action="append",
        metavar="TABLE[:ARG][,TABLE...]",
        help="tables to print; may be repeated (default: those that warpline list marks)",
    )
    parser.add_argument(
        "--sort",
        metavar="FIELD[:asc]",
        help="order tables that have this field by it, largest first; its name in JSON, its"
        " heading, or a sort_by of PyTorch (default: each table's own order)",
    )
    add_filters(parser)
    add_output(parser, formats="text, csv, json, markdown")
    add_table_layout(parser)


def run(args: Namespace) -> int:
    """Print the tables; status 1 if one failed, or each that was named has nothing to show."""
    api = load_api()
    from warpline.result import Skipped  # noqa: PLC0415 - start-up: brings numpy

    named = [name for word in args.report or [] for name in word.split(",") if name]
    for name in named:
        api.split_name(name)
    output = Output(args)
    trace = open_trace(args)
    tables = named or api.default_tables()
    document = api.document(trace, tables, keep_going=not args.debug)
    if args.sort is not None:
        document = _sorted(document, args.sort)
    output.write(document)
    skipped = [section for section in document.sections if isinstance(section, Skipped)]
    has_failed = say_failed(skipped)
    for section in skipped:
        if not section.is_failure and not args.quiet:
            say_skipped(section, with_hint=bool(named))
    return 1 if has_failed or (named and len(skipped) == len(document.sections)) else 0


def _sorted(document: Document, order: str) -> Document:
    """Return the document with the tables sorted that have the field that `order` names."""
    from dataclasses import replace  # noqa: PLC0415 - start-up

    from warpline.result import Result  # noqa: PLC0415 - start-up: brings numpy

    wanted, _, direction = order.rpartition(":")
    if direction.lower() not in _DIRECTIONS:
        wanted, direction = order, "desc"
    ascending = _DIRECTIONS[direction.lower()]
    tables = [section for section in document.sections if isinstance(section, Result)]
    fields = {table.name: _field(table, wanted) for table in tables}
    if tables and not any(fields.values()):
        known = dict.fromkeys(field.name for table in tables for field in table.fields)
        raise UsageError(
            f"no table here has a field {wanted!r}", hint=f"fields: {', '.join(known)}"
        )
    sections: list[Result | Skipped] = []
    for section in document.sections:
        name = fields.get(section.name) if isinstance(section, Result) else None
        if isinstance(section, Result) and name is not None:
            sections.append(section.sorted_by(name, ascending=ascending))
        else:
            sections.append(section)
    return replace(document, sections=tuple(sections))


def _field(table: Result, wanted: str) -> str | None:
    """Return the name of the field of a table that a word means, if there is one."""
    word = wanted.lower()
    on_device = word.replace("cuda", "device").replace("xpu", "device")
    fitting = (
        field.name
        for meant in (word, _OF_PYTORCH.get(on_device))
        for field in table.fields
        if meant in {field.name.lower(), field.heading.lower()}
    )
    return next(fitting, None)
