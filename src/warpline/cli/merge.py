"""``warpline merge``: add what torch.profiler recorded to a recording of the same run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import made_recording
from warpline.cli.startup import lazy

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
    made_recording.add_arguments(parser, _ENDING)


def run(args: Namespace) -> int:
    """Write the recording with the operators and print its path."""
    merged = api.merge(args.recording, *args.traces)
    return made_recording.write(merged, args, [args.recording], _ENDING)
