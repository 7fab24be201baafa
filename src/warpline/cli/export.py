"""``warpline export``: convert a recording to another format."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli.arguments import (
    add_filters,
    add_force,
    add_quiet,
    add_recordings,
    open_trace,
    require_recordings,
    warn_if_all_excluded,
)
from warpline.cli.messages import print_trace_warnings
from warpline.cli.names import default_name, unknown_suffix
from warpline.cli.stack_choice import add_stacks, chosen_stacks, is_chosen
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text

if TYPE_CHECKING:
    from warpline import api, exporters, plugins
    from warpline.exporters import Exporter
else:
    api = lazy("warpline.api")
    exporters = lazy("warpline.exporters")
    plugins = lazy("warpline.plugins")

NAME = "export"
HELP = "convert a recording, or a part of it, to another format"

_DEFAULT = "warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-t",
        "--type",
        metavar="TYPE",
        help="output format: warpline, sqlite, parquet, arrow, json, perfetto; of stacks only:"
        " collapsed, speedscope, firefox, pprof (default: by the suffix of -o, otherwise warpline)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="output file, or directory for parquet and arrow (default: NAME.TYPE in the current"
        " directory, NAME.perfetto.json for perfetto, NAME.folded for collapsed, NAME.pb.gz for"
        " pprof, where NAME is the recording's name without its suffix)",
    )
    parser.add_argument(
        "--tables",
        metavar="TABLE[,TABLE...]",
        help="write only these trace tables, the tables that they reference, and the dimensions",
    )
    add_stacks(parser)
    add_force(parser, "-f")
    add_quiet(parser)
    add_filters(parser)
    parser.add_argument(
        "--times", dest="filter_time", metavar="START/END", help="same as --filter-time"
    )


def run(args: Namespace) -> int:
    """Write the output and print its path."""
    require_recordings(args)
    exporter = _exporter(args)
    trace = open_trace(args)
    target = args.output or default_name(args.recordings, exporter.ending)
    words = None if args.tables is None else args.tables.split(",")
    tables = None if words is None else [word.strip() for word in words if word.strip()]
    stacks = chosen_stacks(trace, args) if is_chosen(args) else None
    overwrite = args.force_overwrite
    path = api.export(
        trace, target, exporter.name, tables=tables, stacks=stacks, overwrite=overwrite
    )
    if not args.quiet:
        warn_if_all_excluded(trace, args)
        print_trace_warnings(trace)
    return write_text(str(path))


def _exporter(args: Namespace) -> Exporter:
    """Return the exporter for the type, or for the suffix of the output."""
    plugins.load("exporters")
    if args.type is not None:
        return exporters.EXPORTERS.get(args.type)
    output = Path(args.output or "")
    if not output.suffix or output.is_dir():
        return exporters.EXPORTERS.get(_DEFAULT)
    # The longest suffix that fits: .perfetto.json before .json.
    fitting = [item for item in exporters.EXPORTERS if output.name.lower().endswith(item.ending)]
    if not fitting:
        raise unknown_suffix(
            args.output, [item.ending for item in exporters.EXPORTERS], "set the format with -t"
        )
    return max(fitting, key=lambda item: len(item.ending))
