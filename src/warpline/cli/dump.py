"""``warpline dump``: write the last seconds that a session keeps, while it goes on."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import running, session_option, talk
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text

if TYPE_CHECKING:
    import dataclasses

    from warpline.capture.launcher import dumping, kept
    from warpline.cli import recorded_output
else:
    dataclasses = lazy("dataclasses")
    dumping = lazy("warpline.capture.launcher.dumping")
    kept = lazy("warpline.capture.launcher.kept")
    recorded_output = lazy("warpline.cli.recorded_output")

NAME = "dump"
HELP = "write what a session keeps with --keep-last, and go on"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="NAME",
        help="output file (default: the name of the session's recording, _dump and a number)",
    )
    parser.add_argument(
        "-f", "--force-overwrite", action="store_true", help="overwrite an existing output file"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print only the output path and errors"
    )


def run(args: Namespace) -> int:
    """Write what is kept, and print its summary."""
    name = session_option.chosen(args)
    found = dumping.dump(name, args.output, overwrite=args.force_overwrite, warn=talk.warning)
    settings = found.settings
    if args.quiet:
        settings = dataclasses.replace(settings, quiet=True)
    finished = kept.write(found.place, running.progress_of(settings))
    recorded_output.conclude(settings, found.place.output, finished, session_option.NOTHING)
    if args.quiet:
        return write_text(running.short(found.place.output))
    return 0
