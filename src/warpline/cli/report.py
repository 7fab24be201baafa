"""``warpline report``: a recording as an HTML file, as Markdown, or its timeline as an image."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import (
    STDOUT,
    add_filters,
    add_force,
    add_quiet,
    add_recordings,
    add_steps,
    filters_in_words,
    open_trace,
    require_recordings,
    warn_if_all_excluded,
)
from warpline.cli.messages import print_trace_warnings
from warpline.cli.names import bare_name, default_name, unknown_suffix
from warpline.cli.shown_page import (
    add_page,
    images_of_timelines,
    measured_ceilings,
    require_timeline,
)
from warpline.cli.sides import add_sides, sides
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file
from warpline.units import format_bytes

if TYPE_CHECKING:
    from warpline import api
    from warpline.cli import freed_memory
    from warpline.viewer import report as page
else:
    api = lazy("warpline.api")
    freed_memory = lazy("warpline.cli.freed_memory")
    page = lazy("warpline.viewer.report")

NAME = "report"
HELP = "write a self-contained HTML report: timeline and findings, or profiled kernels"

_IMAGES = (".svg", ".png")
_MARKDOWN = ".md"
_SUFFIXES = (".html", ".htm", ".zip", _MARKDOWN, *_IMAGES)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?)?b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file: .html, .zip, .md (one page of Markdown to paste into an issue), or an"
        " image of the timeline as .svg or .png; - is standard output, as HTML (default:"
        " NAME.html in the current directory, where NAME is the recording's name without its"
        " suffix)",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="maximum size of the HTML file, such as 20MB; short events are omitted to fit, and"
        " the report shows where. A 25 MB mail fits an 18MB file",
    )
    parser.add_argument(
        "--select",
        metavar="PART",
        help="what an image shows: a step (step:3), a finding (finding:1) or a time range"
        " (10ms-20ms); default: all GPU work",
    )
    parser.add_argument(
        "--png",
        metavar="FILE",
        help="write an image of the timeline as PNG, the same as -o FILE.png; requires Playwright"
        " and Chromium (pip install 'warpline[png]')",
    )
    add_page(parser)
    add_steps(parser)
    add_force(parser, "-f")
    add_quiet(parser)
    add_sides(parser)
    parser.add_argument(
        "--side-by-side",
        action="store_true",
        help="compare two recordings, BEFORE and AFTER, and show both timelines aligned by step;"
        " also for --before and --after. Otherwise several recordings are one timeline",
    )
    add_filters(parser)


def run(args: Namespace) -> int:
    """Write the report or the image and print its path."""
    max_bytes = None if args.max_size is None else parse_size(args.max_size)
    if args.side_by_side or args.before or args.after:
        return _side_by_side(args, max_bytes)
    require_recordings(args)
    target = args.png or args.output or default_name(args.recordings, ".html")
    _check_suffix(target)
    suffix = ".png" if args.png else Path(target).suffix.lower()
    _check_options(args, is_image=suffix in _IMAGES)
    if suffix in _IMAGES:
        return _write_image(args, target, is_png=suffix == ".png")
    if suffix == _MARKDOWN:
        return _write_markdown(args, target)
    trace = open_trace(args)
    _check_free(args, target)
    measured = measured_ceilings(trace, args)
    report = api.make_report(
        trace, steps=args.steps, max_bytes=max_bytes, page=args.page, measured=measured
    )
    _write(target, report.pieces)
    if not args.quiet:
        warn_if_all_excluded(trace, args)
        print_trace_warnings(trace)
        if report.thinned:
            talk.note(report.thinned)
    return _finish(args, target)


def _side_by_side(args: Namespace, max_bytes: int | None) -> int:
    """Write the page that compares two sides."""
    before, after = sides(args)
    filters = filters_in_words(args)
    if filters:
        raise UsageError(
            f"whole recordings are compared: {filters} cannot be used",
            hint="leave it out, or report one recording",
        )
    target = args.output or f"{bare_name(before[0])}-{bare_name(after[0])}.html"
    _check_suffix(target)
    suffix = Path(target).suffix.lower()
    if suffix == _MARKDOWN:
        raise UsageError(
            "--side-by-side writes HTML",
            hint="use -o FILE.html, or warpline compare -o FILE.md",
        )
    if suffix in _IMAGES or args.png or args.select is not None:
        raise UsageError(
            "there are no images of two sides", hint="report one recording, or use -o FILE.html"
        )
    _check_free(args, target)
    freed_memory.reuse()
    pieces = api.make_side_by_side(
        before,
        after,
        steps=args.steps,
        paired=args.paired,
        max_bytes=max_bytes,
        keep_going=not args.debug,
    )
    _write(target, pieces)
    return _finish(args, target)


def _finish(args: Namespace, target: str) -> int:
    if target == STDOUT:
        return 0
    if not args.quiet:
        size = Path(target).stat().st_size
        talk.note(f"wrote {format_bytes(size)}; the file opens in a browser, also offline")
    return write_text(target)


def _check_free(args: Namespace, target: str) -> None:
    if target != STDOUT:
        check_output(Path(target), overwrite=args.force_overwrite)


def _check_options(args: Namespace, *, is_image: bool) -> None:
    """Refuse options that the output does not have."""
    if args.png and args.output:
        raise UsageError("--png and -o name two outputs", hint="use one of them")
    if args.png == STDOUT or (args.png and Path(args.png).suffix.lower() != ".png"):
        raise UsageError(f"--png: {args.png} is no name of a PNG", hint="use --png FILE.png")
    if is_image and args.page == "kernels":
        raise images_of_timelines()
    if is_image and args.max_size is not None:
        raise UsageError("--max-size is of HTML files", hint="leave it out for an image")
    if not is_image and args.select is not None:
        raise UsageError(
            "--select is of images of the timeline",
            hint="use -o FILE.svg or --png FILE.png; for a part of the report, --filter-time",
        )


def _write_markdown(args: Namespace, target: str) -> int:
    """Write a page of Markdown and print its path."""
    if args.page == "kernels" or args.max_size is not None:
        option = "--max-size" if args.max_size is not None else "--page kernels"
        raise UsageError(f"{option} is of HTML files", hint="leave it out for Markdown")
    trace = open_trace(args)
    _check_free(args, target)
    text = api.make_markdown_report(trace, steps=args.steps)
    with complete_file(Path(target)) as unfinished:
        unfinished.write_text(text, "utf-8")
    if not args.quiet:
        warn_if_all_excluded(trace, args)
        print_trace_warnings(trace)
    return write_text(target)


def _write_image(args: Namespace, target: str, *, is_png: bool) -> int:
    """Write an image of the timeline and print its path."""
    trace = open_trace(args)
    require_timeline(trace)
    check_output(Path(target), overwrite=args.force_overwrite)
    image = api.make_picture(trace, select=args.select, steps=args.steps, is_png=is_png)
    with complete_file(Path(target)) as unfinished:
        unfinished.write_bytes(image)
    if not args.quiet:
        print_trace_warnings(trace)
        talk.note(f"wrote {format_bytes(len(image))}")
    return write_text(target)


def _check_suffix(target: str) -> None:
    """Refuse an output file that is neither HTML nor a ZIP file by its name."""
    path = Path(target)
    is_free = target == STDOUT or not path.suffix or (path.exists() and not path.is_file())
    if not is_free and path.suffix.lower() not in _SUFFIXES:
        raise unknown_suffix(target, _SUFFIXES)


def _write(target: str, pieces: list[str]) -> None:
    if target != STDOUT:
        page.write(Path(target), pieces)
        return
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="use -o FILE")
    out = sys.stdout.buffer  # the report is UTF-8, whatever the terminal encoding
    for piece in pieces:
        out.write(piece.encode())
    out.flush()


def parse_size(text: str) -> int:
    """Return the number of bytes in a size such as ``20MB``, ``500k`` or ``1.5GiB``."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--max-size: invalid size {text!r}", hint="use a size such as 20MB")
    return int(Decimal(found[1]) * _FACTORS[(found[2] or "").lower()])
