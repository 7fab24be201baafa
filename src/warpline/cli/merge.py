"""``warpline merge``: add what torch.profiler recorded to a recording of the same run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_force, add_quiet
from warpline.cli.messages import print_trace_warnings
from warpline.cli.names import default_name
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text

if TYPE_CHECKING:
    from warpline import api
else:
    api = lazy("warpline.api")

NAME = "merge"
HELP = "add operators of a PyTorch profiler trace to a recording of the same run"

_ENDING = ".merged.warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("recording", metavar="RECORDING", help="recording of warpline profile")
    parser.add_argument(
        "traces", metavar="TRACE", nargs="+", help="file written by torch.profiler in that run"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"output file (default: NAME{_ENDING} in the current directory)",
    )
    add_force(parser, "-f")
    add_quiet(parser)


def run(args: Namespace) -> int:
    """Write the recording with the operators and print its path."""
    merged = api.merge(args.recording, *args.traces)
    target = args.output or default_name([args.recording], _ENDING)
    path = api.export(merged, target, overwrite=args.force_overwrite)
    if not args.quiet:
        print_trace_warnings(merged)
    return write_text(str(path))
