"""``warpline trend``: where a metric changed over many recordings or baselines."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import STDOUT, add_steps, add_switches
from warpline.cli.startup import lazy
from warpline.errors import InputError, UsageError, WarplineError
from warpline.files import check_output, complete_file

if TYPE_CHECKING:
    from warpline import api, render
    from warpline.cli import freed_memory
    from warpline.comparison import baselines, limits, summary
    from warpline.comparison import trend as trends
    from warpline.comparison.summary import Summary
    from warpline.render import trend as rendering
else:
    api = lazy("warpline.api")
    render = lazy("warpline.render")
    freed_memory = lazy("warpline.cli.freed_memory")
    baselines = lazy("warpline.comparison.baselines")
    limits = lazy("warpline.comparison.limits")
    summary = lazy("warpline.comparison.summary")
    trends = lazy("warpline.comparison.trend")
    rendering = lazy("warpline.render.trend")

NAME = "trend"
HELP = "find where step times changed over many recordings or baselines"

_SUFFIXES = {".json": "json", ".md": "markdown", ".svg": "svg", ".txt": "text"}
_FORMATS = ("text", "markdown", "json", "svg")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FOLDER|FILE",
        help="folders of baselines, baselines, or recordings; ordered by the time of recording",
    )
    parser.usage = f"{parser.prog} FOLDER|FILE... [OPTIONS]"
    parser.add_argument(
        "--metric",
        default="step",
        metavar="METRIC",
        help="step, exposed-communication, memory-peak, kernel:PATTERN, busy:PATTERN or"
        " idle:PATTERN (default: step)",
    )
    parser.add_argument(
        "--tolerance",
        default="2%",
        metavar="SHARE",
        help="change that does not count (default: 2%%)",
    )
    add_steps(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-f",
        "--format",
        metavar="FORMAT",
        help=f"output format: {', '.join(_FORMATS)} (default: by the suffix of -o, or text)",
    )
    group.add_argument(
        "-o",
        "--output",
        default=STDOUT,
        metavar="FILE",
        help="output file: .svg (a plot), .json, .md or .txt (default: -, standard output)",
    )
    add_switches(group)


def run(args: Namespace) -> int:
    """Print the trend; status 1 if a baseline of a folder is damaged."""
    metric = limits.parse_metric(args.metric)
    tolerance = _share(args.tolerance)
    name = _format(args)
    if not args.files:
        raise UsageError("missing FOLDER or FILE argument", hint=f"warpline {NAME} FOLDER")
    if args.output != STDOUT:
        check_output(Path(args.output), overwrite=args.force_overwrite)
    freed_memory.reuse()
    files = _files(args.files)
    sides = [(str(path), side) for path in files for side in _read(path, args)]
    if not sides:
        raise UsageError("no file could be read", hint="save the baselines again")
    found = trends.trend(sides, metric, tolerance=tolerance)
    for file, why in found.left_out if not args.quiet else ():
        talk.warning(f"{file} is left out: {why}")
    if args.output != STDOUT:
        with (
            complete_file(Path(args.output)) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as out,
        ):
            rendering.WRITERS[name](found, out, render.Options())
        return int(len(sides) < len(files))
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="use -o FILE")
    rendering.WRITERS[name](found, sys.stdout, render.detect_options(sys.stdout, os.environ))
    return int(len(sides) < len(files))


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(
            f"--tolerance: {text!r} is not a share between 0 and 100%", hint="use --tolerance 2%"
        )
    return value


def _format(args: Namespace) -> str:
    if args.format is not None:
        if args.format not in _FORMATS:
            raise UsageError(
                f"unknown format {args.format!r}", hint="use text, markdown, json or svg"
            )
        return str(args.format)
    if args.output == STDOUT:
        return "text"
    suffix = Path(args.output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"{args.output}: unknown output suffix {suffix!r}", hint="use .svg, .json, .md or .txt"
        )
    return _SUFFIXES[suffix]


def _files(words: list[str]) -> list[Path]:
    """Return the files that words name; of a folder, its baselines."""
    files: list[Path] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            own = [baselines.path_of(path, name) for name in baselines.names(path)]
            if not own:
                raise UsageError(
                    f"{word} has no baselines", hint="warpline baseline save NAME RECORDING..."
                )
            files += own
        elif not path.exists():
            raise UsageError(f"{word}: no such file", hint="name baselines or recordings")
        else:
            files.append(path)
    return files


def _read(path: Path, args: Namespace) -> list[Summary]:
    """Return the summary of a file; none, and an error message, for a damaged baseline."""
    is_of_folder = str(path) not in args.files
    if not is_of_folder and not baselines.is_baseline(path):
        return [api.summarize(str(path), steps=args.steps, keep_going=not args.debug)]
    try:
        return [summary.joined(path.stem, [baselines.read(path)])]
    except InputError as error:
        if not is_of_folder:
            raise
        talk.failure(error.message, error.hint, debug=False)
        return []
