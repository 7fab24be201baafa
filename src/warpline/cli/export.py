"""``warpline export``: a recording in another format."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import add_filters, add_recordings, open_trace
from warpline.cli.output import say_unread, write_text
from warpline.cli.startup import load_api

if TYPE_CHECKING:
    from warpline.trace import Trace

NAME = "export"
HELP = "a recording, or a part of one, as a file of another format"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-t",
        "--type",
        metavar="TYPE",
        default="warpline",
        help="the format, one of those that warpline list names (default: warpline, which opens"
        " at once)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the file or folder to write (default: the recording's name with the format's"
        " ending, in the current folder)",
    )
    parser.add_argument(
        "--tables",
        metavar="TABLE[,TABLE...]",
        help="only these tables of the trace, those that they refer to, and the dimensions",
    )
    parser.add_argument(
        "--force-overwrite", action="store_true", help="replace the output if it exists"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="say nothing beside errors and the path written"
    )
    add_filters(parser)
    parser.add_argument(
        "--times", dest="filter_time", metavar="START/END", help="the same as --filter-time"
    )


def run(args: Namespace) -> int:
    """Write the file and print its path."""
    api = load_api()
    from warpline import plugins  # noqa: PLC0415 - start-up: brings numpy
    from warpline.exporters import EXPORTERS  # noqa: PLC0415 - likewise

    plugins.load("exporters")
    exporter = EXPORTERS.get(args.type)
    trace = open_trace(args)
    target = args.output or Path(args.recordings[0]).stem + exporter.ending
    words = None if args.tables is None else args.tables.split(",")
    tables = None if words is None else [word.strip() for word in words if word.strip()]
    path = api.export(trace, target, args.type, tables=tables, overwrite=args.force_overwrite)
    if not args.quiet:
        _talk(trace)
    return write_text(str(path))


def _talk(trace: Trace) -> None:
    from warpline.result import warnings_of  # noqa: PLC0415 - start-up: brings numpy

    for warning in dict.fromkeys(warnings_of(trace)):
        talk.warning(warning)
    say_unread(trace.meta.unread)
