"""``warpline stats``: tables, with the options of ``nsys stats``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline.cli import talk
from warpline.cli.arguments import (
    add_filters,
    add_recordings,
    open_trace,
    require_recordings,
    with_filter_named,
)
from warpline.cli.output import (
    FORMAT_OF_SUFFIX,
    STDOUT,
    Output,
    add_switches,
    add_table_layout,
    bare_name,
    default_name,
    print_warnings,
    say_failed,
    say_skipped,
    write_text,
)
from warpline.cli.startup import lazy
from warpline.errors import UsageError
from warpline.files import is_special

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, plugins, result
    from warpline.cli import explain
    from warpline.result import Document, Result, Skipped
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    result = lazy("warpline.result")
    explain = lazy("warpline.cli.explain")

NAME = "stats"
HELP = "print tables such as cuda_gpu_kern_sum, with the names and numbers of nsys stats"

_DERIVED = "."  # an output: files named after the recording
_PIPE = "@"  # how nsys marks a command to pipe the output to
_SUFFIX_OF_FORMAT = {name: suffix for suffix, name in FORMAT_OF_SUFFIX.items()}
_ALL = "ALL"

# Values of sort_by in key_averages().table() of PyTorch, with cuda and xpu replaced by device.
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
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-r",
        "--report",
        action="append",
        metavar="TABLE[:ARG][,TABLE...]",
        help="tables to print (default: those marked * in warpline list)",
    )
    parser.add_argument(
        "--sort",
        metavar="FIELD[:asc]",
        help="sort by this field, largest first: its JSON name, its heading, or a sort_by of"
        " PyTorch; other tables keep their order",
    )
    parser.add_argument(
        "--help-reports",
        nargs="?",
        const="",
        metavar="TABLE[,TABLE...]|ALL",
        help="list all tables, or explain some",
    )
    add_filters(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-f",
        "--format",
        action="append",
        metavar="FORMAT[,FORMAT...]",
        help="output format: text, csv, json, markdown (default: by the suffix of -o, csv for a"
        " FILE without one, text for standard output)",
    )
    group.add_argument(
        "-o",
        "--output",
        action="append",
        metavar="FILE[,FILE...]",
        help="output file: .csv, .json, .md or .txt. FILE without a suffix writes FILE_TABLE.csv"
        " for each table; a period (.) names these files after the recording. Lists of tables,"
        " formats and files are matched in order, and the last item is repeated (default: -,"
        " standard output)",
    )
    add_switches(group)
    add_table_layout(parser)
    group = parser.add_argument_group("options of nsys stats")
    group.add_argument(
        "--sqlite",
        metavar="FILE",
        help="SQLite export of RECORDING, read instead of it if it exists (never written)",
    )
    group.add_argument(
        "--force-export",
        action="store_true",
        help="read RECORDING even if the file of --sqlite exists",
    )


def run(args: Namespace) -> int:
    """Print the tables; status 1 if one failed, or if all tables of -r are skipped."""
    if args.help_reports is not None:
        return _help_reports(args.help_reports)

    named = _listed(args.report)
    for name in named:
        api.split_name(name)
    _choose_source(args)
    require_recordings(args)
    tables = named or api.default_tables()
    parts = _parts(args, tables)
    outputs = [Output(_alone(args, part)) for part in parts]
    document = api.document(open_trace(args), tables, keep_going=not args.debug)
    if args.sort is not None:
        document = _sorted(document, args.sort)
    for part, output in zip(parts, outputs, strict=True):
        sections = tuple(document.sections[place] for place in part.places)
        if part.is_derived and all(isinstance(section, result.Skipped) for section in sections):
            continue  # like nsys: no empty file
        if part.output == STDOUT and part is not next(p for p in parts if p.output == STDOUT):
            write_text("")
        output.write(dataclasses.replace(document, sections=sections))
        if part.is_derived and not args.quiet:
            talk.note(f"wrote {part.output}")
    if not args.quiet and any(output.format != "json" for output in outputs):
        print_warnings(document)
    skipped = [section for section in document.sections if isinstance(section, result.Skipped)]
    has_failed = say_failed(skipped)
    for section in skipped:
        if not section.is_failure and not args.quiet:
            say_skipped(with_filter_named(section, args), with_hint=bool(named))
    return 1 if has_failed or (named and len(skipped) == len(document.sections)) else 0


class _Part(NamedTuple):
    """Tables that go to the same place in the same format.

    Attributes:
        output: A file, or "-".
        format: The format; None means by the suffix of the file.
        is_derived: Whether the file name contains the table name.
        places: Positions in the list of tables.
    """

    output: str
    format: str | None
    is_derived: bool
    places: list[int]


def _parts(args: Namespace, tables: list[str]) -> list[_Part]:
    """Return where each table goes.

    As in nsys, tables, formats and outputs are matched in order, and the last item of a shorter
    list is repeated.
    """
    formats: list[str | None] = [None if word == "." else word for word in _listed(args.format)]
    outputs = _listed(args.output)
    formats, outputs = formats or [None], outputs or [STDOUT]
    parts: list[_Part] = []
    for place in range(max(len(tables), len(formats), len(outputs))):
        table = min(place, len(tables) - 1)
        part = _part(
            args,
            tables[table],
            formats[min(place, len(formats) - 1)],
            outputs[min(place, len(outputs) - 1)],
        )
        same = next((item for item in reversed(parts) if item.output == part.output), None)
        if part.output == STDOUT and same is not None and same is not parts[-1]:
            same = None  # standard output keeps the order of the tables
        if same is not None and same.format == part.format:
            part = same
        elif same is not None and part.output != STDOUT:
            raise UsageError(
                f"{part.output} has two formats: {same.format} and {part.format}",
                hint="name one file per format, such as -o a.csv,b.json",
            )
        else:
            parts.append(part)
        if table not in part.places:
            part.places.append(table)
    return parts


def _part(args: Namespace, table: str, format: str | None, output: str) -> _Part:  # noqa: A002
    """Return where one table goes."""
    if output == STDOUT:
        return _Part(STDOUT, format or "text", is_derived=False, places=[])
    if output.startswith(_PIPE):
        raise UsageError(
            f"-o {output}: Warpline does not start commands",
            hint=f"use a shell pipe: warpline stats ... | {output.removeprefix(_PIPE)}",
        )
    path = Path(output)
    if output != _DERIVED and (path.suffix or is_special(path)):
        return _Part(output, format, is_derived=False, places=[])
    base = _base(args.recordings) if output == _DERIVED else output
    kind = format or "csv"
    name = table.replace(":", "_").replace("=", "_").replace("/", "_")
    suffix = _SUFFIX_OF_FORMAT.get("text" if kind == "column" else kind, f".{kind}")
    return _Part(f"{base}_{name}{suffix}", kind, is_derived=True, places=[])


def _base(recordings: Sequence[str]) -> str:
    """Return the recording's path without its suffix; of several, what their names share."""
    first = Path(recordings[0])
    name = bare_name(recordings[0]) if len(recordings) == 1 else default_name(recordings, "")
    return str(first.parent / name)


def _alone(args: Namespace, part: _Part) -> Namespace:
    """Return the arguments of one output; messages are printed once, after all outputs."""
    words = {**vars(args), "format": part.format, "output": part.output, "quiet": True}
    return Namespace(**words)


def _listed(words: Sequence[str] | None) -> list[str]:
    return [name.strip() for word in words or [] for name in word.split(",") if name.strip()]


def _choose_source(args: Namespace) -> None:
    """Apply --sqlite and --force-export; print what has no effect here, and why."""
    if args.sqlite is None:
        if args.force_export and not args.quiet:
            talk.note("--force-export has no effect: Warpline reads recordings without an export")
        return
    if len(args.recordings) > 1:
        raise UsageError("--sqlite goes with one RECORDING", hint="drop --sqlite")
    if args.recordings and Path(args.recordings[0]).suffix.lower() == ".sqlite":
        raise UsageError(
            "--sqlite cannot be combined with a .sqlite recording", hint="drop one of the two"
        )
    if not args.recordings:
        args.recordings = [args.sqlite]
        return
    if Path(args.sqlite).exists() and not args.force_export:
        talk_of = f"reading {args.sqlite} instead of {args.recordings[0]} (--sqlite)"
        args.recordings = [args.sqlite]
    else:
        talk_of = f"--sqlite {args.sqlite} is not written: Warpline reads {args.recordings[0]}"
        talk_of += " without an export"
    if not args.quiet:
        talk.note(talk_of)


def _help_reports(words: str) -> int:
    """List the tables, or explain those that are named."""
    plugins.load("analyses")
    names = _listed([words])
    if not names:
        width = max(map(len, result.ANALYSES.names()))
        items = sorted(result.ANALYSES, key=lambda item: item.name)
        lines = [f"  {item.name:{width}}  {item.title}" for item in items]
        heading = "Tables; --help-reports TABLE explains one, --help-reports ALL explains all"
        return write_text("\n".join([heading, *lines]))
    if names == [_ALL]:
        names = sorted(result.ANALYSES.names())
    tables = [result.ANALYSES.get(name.split(":")[0]) for name in names]
    return write_text("\n\n\n".join(map(explain.table, tables)))


def _sorted(document: Document, order: str) -> Document:
    """Return the document with tables sorted by the field of `order`, if they have it."""
    wanted, _, direction = order.rpartition(":")
    if direction.lower() not in _DIRECTIONS:
        wanted, direction = order, "desc"
    ascending = _DIRECTIONS[direction.lower()]
    tables = [section for section in document.sections if isinstance(section, result.Result)]
    fields = {table.name: _field(table, wanted) for table in tables}
    if tables and not any(fields.values()):
        known = dict.fromkeys(field.name for table in tables for field in table.fields)
        raise UsageError(f"--sort: no table has a field {wanted!r}", hint=f"use {', '.join(known)}")
    sections: list[Result | Skipped] = []
    for section in document.sections:
        name = fields.get(section.name) if isinstance(section, result.Result) else None
        if isinstance(section, result.Result) and name is not None:
            sections.append(section.sorted_by(name, ascending=ascending))
        else:
            sections.append(section)
    return dataclasses.replace(document, sections=tuple(sections))


def _field(table: Result, wanted: str) -> str | None:
    """Return the name of the table's field that a word refers to, or None."""
    word = wanted.lower()
    on_device = word.replace("cuda", "device").replace("xpu", "device")
    fitting = (
        field.name
        for meant in (word, _OF_PYTORCH.get(on_device))
        for field in table.fields
        if meant in {field.name.lower(), field.heading.lower()}
    )
    return next(fitting, None)
