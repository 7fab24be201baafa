"""``warpline report``: a recording as one HTML file."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path

from warpline.cli import talk
from warpline.cli.arguments import add_filters, add_recordings, open_trace
from warpline.cli.output import say_unread, write_text
from warpline.cli.startup import load_api
from warpline.errors import UsageError

NAME = "report"
HELP = "one HTML file to open offline or mail: verdict, findings, tables, timeline"

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?)?b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write (default: the recording's name with .html, in the current folder)",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="how large the file may be, such as 20MB: if need be short events are left out, and"
        " the page says where; a mail of 25 MB has room for 18MB",
    )
    parser.add_argument(
        "--steps",
        metavar="NAME",
        help="the ranges that are steps, with * for any text, such as 'epoch_*'; without it they"
        " are found",
    )
    parser.add_argument(
        "--force-overwrite", action="store_true", help="replace the output if it exists"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="say nothing beside errors and the path written"
    )
    add_filters(parser)


def run(args: Namespace) -> int:
    """Write the file and print its path."""
    api = load_api()
    max_bytes = None if args.max_size is None else parse_size(args.max_size)
    trace = open_trace(args)
    target = args.output or Path(args.recordings[0]).stem.removesuffix(".json") + ".html"
    path = api.report(
        trace, target, steps=args.steps, max_bytes=max_bytes, overwrite=args.force_overwrite
    )
    if not args.quiet:
        from warpline.result import warnings_of  # noqa: PLC0415 - start-up: brings numpy

        for warning in dict.fromkeys(warnings_of(trace)):
            talk.warning(warning)
        say_unread(trace.meta.unread)
    return write_text(str(path))


def parse_size(text: str) -> int:
    """Return the bytes that a text such as ``20MB``, ``500k`` or ``1.5GiB`` means."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size", hint="--max-size 20MB")
    return int(float(found[1]) * _FACTORS[(found[2] or "").lower()])
