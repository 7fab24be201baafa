"""``warpline report``: a recording as one HTML file."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from warpline.cli import talk
from warpline.cli.arguments import add_filters, add_recordings, add_steps, open_trace
from warpline.cli.output import say_unread, write_text
from warpline.cli.startup import load_api
from warpline.errors import UsageError, WarplineError
from warpline.units import format_bytes

NAME = "report"
HELP = "one HTML file to open offline or mail: verdict, findings, tables, timeline"

_STDOUT = "-"
# What the names of ranks end in, where the number is taken off.
_NUMBERED = re.compile(r"[\W_]*(rank|worker)?[\W_0-9]*$", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?)?b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write (default: the recording's name with .html, in the current folder);"
        " NAME.zip zips the page, for mails that refuse HTML; - is standard output",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="how large the page may be, such as 20MB: if need be short events are left out, and"
        " the page says where; a mail of 25 MB has room for 18MB",
    )
    add_steps(parser)
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
    target = args.output or default_name(args.recordings)
    if target != _STDOUT:
        api.check_output(Path(target), overwrite=args.force_overwrite)
    report = api.make_report(trace, steps=args.steps, max_bytes=max_bytes)
    _write(target, report.pieces)
    if not args.quiet:
        from warpline.result import warnings_of  # noqa: PLC0415 - start-up: brings numpy

        for warning in dict.fromkeys(warnings_of(trace)):
            talk.warning(warning)
        say_unread(trace.meta.unread)
        if report.thinned:
            talk.note(report.thinned)
        if target != _STDOUT:
            size = Path(target).stat().st_size
            talk.note(f"{format_bytes(size)} in one file; a browser opens it, offline too")
    return 0 if target == _STDOUT else write_text(target)


def _write(target: str, pieces: list[str]) -> None:
    if target != _STDOUT:
        from warpline.viewer.report import write  # noqa: PLC0415 - start-up

        write(Path(target), pieces)
        return
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="-o FILE writes to a file")
    out = sys.stdout.buffer  # the page is UTF-8, whatever the terminal's encoding is
    for piece in pieces:
        out.write(piece.encode())
    out.flush()


def default_name(recordings: Sequence[str]) -> str:
    """Return the file to write where none is named: as the recording, or what their names share."""
    names = [_bare_name(word) for word in recordings]
    # Not of paths: of the bare names, letter by letter.
    shared = os.path.commonprefix(names)  # noqa: RUF071
    if len(names) > 1:
        shared = _NUMBERED.sub("", shared) or shared
    return (shared or names[0]) + ".html"


def _bare_name(word: str) -> str:
    path = Path(word).resolve() if Path(word).is_dir() else Path(word)
    if path.is_dir():
        return path.name or "report"
    name = path.stem
    for ending in (".json", ".trace", ".pt"):  # of NAME.pt.trace.json.gz
        name = name.removesuffix(ending)
    return name


def parse_size(text: str) -> int:
    """Return the bytes that a text such as ``20MB``, ``500k`` or ``1.5GiB`` means."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size", hint="--max-size 20MB")
    return int(Decimal(found[1]) * _FACTORS[(found[2] or "").lower()])
