"""``warpline memory``: who holds the memory of GPUs, of one recording or of two."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import (
    add_output,
    add_places,
    add_steps,
    open_trace,
    require_recordings,
)
from warpline.cli.messages import print_trace_warnings
from warpline.cli.output import Output
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError
from warpline.files import check_output
from warpline.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpline import api
    from warpline.derived.memory import labels
    from warpline.render import memory as rendering
    from warpline.trace import Trace
    from warpline.viewer import report as page
else:
    api = lazy("warpline.api")
    labels = lazy("warpline.derived.memory.labels")
    rendering = lazy("warpline.render.memory")
    page = lazy("warpline.viewer.report")

NAME = "memory"
HELP = "show who holds GPU memory: peak, kinds, modules, lines; compare two recordings"

_SIDES = 2
_PAGES = (".html", ".htm", ".zip")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="recording or memory snapshot of PyTorch (.pickle); two are compared",
    )
    parser.usage = f"{parser.prog} RECORDING [AFTER] [OPTIONS]"
    group = parser.add_argument_group("analysis")
    group.add_argument(
        "--by",
        metavar="NAME",
        help="list holders by line, module, operator or kind (default: each that is known)",
    )
    add_steps(group)
    add_places(parser)
    add_output(
        parser, formats="text, csv, json, markdown", page="a page with every moment: .html or .zip"
    )


def run(args: Namespace) -> int:
    """Print the tables, or write the page and print its path."""
    if args.by is not None and args.by not in labels.BYS:
        raise UsageError(
            f"--by: unknown name {args.by!r}", hint="use line, module, operator or kind"
        )
    if len(args.recordings) > _SIDES:
        raise UsageError(
            f"at most two recordings are compared, {len(args.recordings)} named",
            hint=f"warpline {NAME} BEFORE AFTER",
        )
    require_recordings(args)
    if Path(args.output).suffix.lower() in _PAGES and args.format is None:
        return _write_page(args)
    renders = {"text": rendering.render_text, "markdown": rendering.render_markdown}
    named = {name: partial(each, recordings=args.recordings) for name, each in renders.items()}
    output = Output(args, named)
    found = [api.memory(trace, by=args.by, steps=args.steps) for trace in _traces(args)]
    output.write(found[0] if len(found) == 1 else api.compare_memory(*found))
    return 0


def _traces(args: Namespace) -> Sequence[Trace]:
    """Open each recording as a trace of its own."""
    return [open_trace(Namespace(**{**vars(args), "recordings": [one]})) for one in args.recordings]


def _write_page(args: Namespace) -> int:
    """Write the page and print its path."""
    target = Path(args.output)
    check_output(target, overwrite=args.force_overwrite)
    traces = _traces(args)
    report = api.make_memory_report(traces, by=args.by, steps=args.steps)
    page.write(target, report.pieces)
    if not args.quiet:
        for trace in traces:
            print_trace_warnings(trace)
        talk.note(f"wrote {format_bytes(target.stat().st_size)}; the file opens in a browser")
    return write_text(args.output)
