"""``warpline import``: make a recording of a file of another tool, such as nsys's ``.nsys-rep``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import made_recording
from warpline.cli.arguments import add_recordings, require_recordings
from warpline.cli.startup import lazy

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
    made_recording.add_arguments(parser, _ENDING)


def run(args: Namespace) -> int:
    """Write the recording and print its path."""
    require_recordings(args)
    trace = api.open(*args.recordings)
    return made_recording.write(trace, args, args.recordings, _ENDING)
