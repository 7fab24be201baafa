"""``warpline import``: make a recording of a file of another tool, such as nsys's ``.nsys-rep``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_force, add_quiet, add_recordings, require_recordings
from warpline.cli.messages import print_trace_warnings
from warpline.cli.names import default_name
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text

if TYPE_CHECKING:
    from warpline import api
else:
    api = lazy("warpline.api")

NAME = "import"
HELP = "convert a file of another tool, such as .nsys-rep, to a recording"

_ENDING = ".warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.description = (
        "Convert a file of another tool to a recording: Nsight Systems' .nsys-rep (where nsys is"
        " installed) or .sqlite, Nsight Compute's .ncu-rep, traces of PyTorch's profiler. Other"
        " commands read these files, too; a recording opens faster and needs no nsys."
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
    """Write the recording and print its path."""
    require_recordings(args)
    trace = api.open(*args.recordings)
    target = args.output or default_name(args.recordings, _ENDING)
    path = api.export(trace, target, overwrite=args.force_overwrite)
    if not args.quiet:
        print_trace_warnings(trace)
    return write_text(str(path))
