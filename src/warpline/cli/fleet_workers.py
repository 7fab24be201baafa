"""What the parts of ``warpline fleet`` share: options about workers, and where answers go."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from warpline.cli import talk
from warpline.cli.arguments import STDOUT
from warpline.cli.output import format_name
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file, is_special
from warpline.units import format_bytes

if TYPE_CHECKING:
    from warpline import api, render
    from warpline.result.fleet import Fleet
    from warpline.result.fleet_comparison import FleetComparison
    from warpline.viewer import report as pages
else:
    api = lazy("warpline.api")
    render = lazy("warpline.render")
    pages = lazy("warpline.viewer.report")

FORMATS = ("text", "json", "markdown")
PAGE = "page"  # chosen by the suffix of the file only, as in other commands
_PAGES = (".html", ".htm", ".zip")


def add_workers(parser: ArgumentParser) -> _ArgumentGroup:
    """Declare who reads recordings."""
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that read recordings (default: one per CPU core; 1 for up to 8"
        " recordings). 1 needs no extra package, more need warpline[cluster]",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="read with the workers of a running dask cluster instead, such as"
        " tcp://10.0.0.5:8786; they must see the recordings under the same paths",
    )
    return group


def checked_format(args: Namespace) -> str:
    """Return one of `FORMATS` or `PAGE`, after checks that need no work to be done.

    Raises:
        UsageError: The format is unknown, or the file exists.
    """
    is_page = args.format is None and Path(args.output).suffix.lower() in _PAGES
    name = PAGE if is_page else format_name(args)
    if name not in (*FORMATS, PAGE):
        raise UsageError(f"unknown format {name!r}", hint=f"use {', '.join(FORMATS)}")
    if args.output != STDOUT:
        check_output(Path(args.output), overwrite=args.force_overwrite)
    return name


def write_page(found: Fleet | FleetComparison, verdict: str, args: Namespace) -> None:
    """Write the page, and print its path; the verdict is a note."""
    target = Path(args.output)
    pages.write(target, api.make_fleet_report(found, target.parent).pieces)
    if not args.quiet:
        talk.note(verdict)
        talk.note(f"wrote {format_bytes(target.stat().st_size)}; the file opens in a browser")
    write_text(args.output)


def write_answer(write: Callable[[TextIO, render.Options], None], output: str) -> None:
    """Write an answer to a file, which appears when it is complete, or to standard output.

    Raises:
        WarplineError: Standard output is closed, or the file cannot be written.
    """
    if output != STDOUT and not is_special(Path(output)):
        with (
            complete_file(Path(output)) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as out,
        ):
            write(out, render.Options())
        return
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="use -o FILE")
    write(sys.stdout, render.detect_options(sys.stdout, os.environ))
    sys.stdout.flush()
