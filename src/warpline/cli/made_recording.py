"""What the commands that make a recording of other files share: ``-o``, ``-f``, and writing it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_force, add_quiet
from warpline.cli.messages import print_trace_warnings
from warpline.cli.names import default_name
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text

if TYPE_CHECKING:
    from warpline import api
    from warpline.trace import Trace
else:
    api = lazy("warpline.api")


def add_arguments(parser: ArgumentParser, ending: str) -> None:
    """Declare the options for the output; without a name it is that of the input, and `ending`."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"output file (default: NAME{ending} in the current directory)",
    )
    add_force(parser, "-f")
    add_quiet(parser)


def write(trace: Trace, args: Namespace, inputs: Sequence[str], ending: str) -> int:
    """Write a trace as a recording, and print its path."""
    target = args.output or default_name(inputs, ending)
    path = api.export(trace, target, overwrite=args.force_overwrite)
    if not args.quiet:
        print_trace_warnings(trace)
    return write_text(str(path))
