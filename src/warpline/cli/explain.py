"""``warpline explain``: the documentation of a table, a rule or a term."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.cli.stdout import text_width, write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.documents import explanations
else:
    explanations = lazy("warpline.documents.explanations")

NAME = "explain"
HELP = "explain a table, a rule or a term"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} NAME"
    parser.add_argument(
        "table",
        nargs="?",
        metavar="NAME",
        help="a table of warpline stats, a rule of warpline analyze or kernels, a trace table, or a"
        " term, such as exposed or launch-bound",
    )


def run(args: Namespace) -> int:
    """Print the documentation of a table, a rule or a term."""
    if args.table is None:
        raise UsageError("missing NAME argument", hint="run warpline list for the names")
    return write_text(explanations.explanation(args.table.split(":")[0], text_width()))
