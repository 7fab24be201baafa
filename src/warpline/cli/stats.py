"""``warpline stats``: tables, with the options of ``nsys stats``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import (
    STDOUT,
    add_filters,
    add_recordings,
    add_switches,
    add_table_layout,
    open_trace,
    require_recordings,
    with_filter_named,
)
from warpline.cli.messages import print_warnings, say_failed, say_skipped
from warpline.cli.output import Output
from warpline.cli.placing import alone, listed, parts_of
from warpline.cli.sorting import sorted_by
from warpline.cli.startup import lazy
from warpline.cli.stdout import text_width, write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, plugins, result
    from warpline.documents import explanations
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    result = lazy("warpline.result")
    explanations = lazy("warpline.documents.explanations")

NAME = "stats"
HELP = "print tables such as cuda_gpu_kern_sum, with the names and numbers of nsys stats"

_ALL = "ALL"


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

    named = listed(args.report)
    for name in named:
        api.split_name(name)
    _choose_source(args)
    require_recordings(args)
    tables = named or api.default_tables()
    parts = parts_of(args, tables)
    outputs = [Output(alone(args, part)) for part in parts]
    document = api.document(open_trace(args), tables, keep_going=not args.debug)
    if args.sort is not None:
        document = sorted_by(document, args.sort)
    for part, output in zip(parts, outputs, strict=True):
        sections = tuple(document.sections[place] for place in part.places)
        if part.is_derived and all(isinstance(section, result.Skipped) for section in sections):
            continue  # like nsys: no empty file
        if part.output == STDOUT and part is not next(p for p in parts if p.output == STDOUT):
            write_text("")
        output.write(dataclasses.replace(document, sections=sections))
        if part.is_derived and not args.quiet:
            talk.note(f"wrote {part.output}")
    if not args.quiet and not all(output.has_warnings for output in outputs):
        print_warnings(document)
    skipped = [section for section in document.sections if isinstance(section, result.Skipped)]
    has_failed = say_failed(skipped)
    for section in skipped:
        if not section.is_failure and not args.quiet:
            say_skipped(with_filter_named(section, args), with_hint=bool(named))
    return 1 if has_failed or (named and len(skipped) == len(document.sections)) else 0


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
    names = listed([words])
    if not names:
        width = max(map(len, result.ANALYSES.names()))
        items = sorted(result.ANALYSES, key=lambda item: item.name)
        lines = [f"  {item.name:{width}}  {item.title}" for item in items]
        heading = "Tables; --help-reports TABLE explains one, --help-reports ALL explains all"
        return write_text("\n".join([heading, *lines]))
    if names == [_ALL]:
        names = sorted(result.ANALYSES.names())
    tables = [result.ANALYSES.get(name.split(":")[0]) for name in names]
    width = text_width()
    return write_text("\n\n\n".join(explanations.table(item, width) for item in tables))
