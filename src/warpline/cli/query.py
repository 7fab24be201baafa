"""``warpline query``: SQL over a recording."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.arguments import (
    add_filters,
    add_output,
    add_recordings,
    add_table_layout,
    open_trace,
)
from warpline.cli.output import Output
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline import api
else:
    api = lazy("warpline.api")

NAME = "query"
HELP = "run a SQL query on the tables of nsys or of Warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.usage = f'{parser.prog} RECORDING... "SELECT ..." [OPTIONS]'
    add_filters(parser)
    add_output(parser, formats="text, csv, json, markdown")
    add_table_layout(parser)


def run(args: Namespace) -> int:
    """Print the rows that the query returns."""
    if len(args.recordings) < 2:
        raise UsageError(
            "missing RECORDING or SQL argument",
            hint='warpline query RECORDING "SELECT name, count(*) FROM kernel GROUP BY name"',
        )
    output = Output(args)
    *args.recordings, statement = args.recordings
    output.write(api.query_document(open_trace(args), statement))
    return 0
