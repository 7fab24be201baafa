"""``warpline stats``: tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from warpline.cli import talk
from warpline.cli.arguments import add_filters, add_recordings, open_trace
from warpline.cli.output import Output, add_output, add_table_layout, say_skipped
from warpline.cli.startup import load_api

NAME = "stats"
HELP = "tables such as cuda_gpu_kern_sum, with the names and numbers of nsys stats"


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
    output.write(document)
    skipped = [section for section in document.sections if isinstance(section, Skipped)]
    for section in skipped:
        if section.is_failure:
            talk.failure(f"{section.name}: {section.reason}", section.hint, debug=False)
        elif not args.quiet:
            say_skipped(section, with_hint=bool(named))
    has_failed = any(section.is_failure for section in skipped)
    return 1 if has_failed or (named and len(skipped) == len(document.sections)) else 0
