"""``warpline flame``: where the time of stacks goes: a table, a flame graph, other viewers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import (
    STDOUT,
    add_filters,
    add_output,
    add_recordings,
    open_trace,
    require_recordings,
)
from warpline.cli.messages import print_trace_warnings
from warpline.cli.output import Output
from warpline.cli.stack_choice import add_stacks, chosen_stacks
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.files import check_output
from warpline.units import format_bytes

if TYPE_CHECKING:
    from warpline import api, exporters, plugins
    from warpline.render import flame as rendering
    from warpline.viewer import report as page
else:
    api = lazy("warpline.api")
    exporters = lazy("warpline.exporters")
    plugins = lazy("warpline.plugins")
    rendering = lazy("warpline.render.flame")
    page = lazy("warpline.viewer.report")

NAME = "flame"
HELP = "show where CPU, Python or GPU time goes by stack: a table, or a flame graph"

_PAGES = (".html", ".htm", ".zip")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    add_stacks(parser)
    add_filters(parser)
    add_output(
        parser,
        formats="text, csv, json, markdown",
        page="a flame graph: .html or .zip; or stacks for other viewers: .folded,"
        " .speedscope.json, .firefox.json or .pb.gz (pprof)",
    )


def run(args: Namespace) -> int:
    """Print the table, or write the page or the stacks and print the path."""
    require_recordings(args)
    exporter = _exporter(args)
    if exporter is not None:
        trace = open_trace(args)
        stacks = chosen_stacks(trace, args)
        target = Path(args.output)
        exporters.export(trace, target, exporter, stacks=stacks, overwrite=args.force_overwrite)
        if not args.quiet:
            print_trace_warnings(trace)
        return write_text(args.output)
    if Path(args.output).suffix.lower() in _PAGES and args.format is None:
        return _write_page(args)
    renders = {"text": rendering.render_text, "markdown": rendering.render_markdown}
    named = {name: partial(each, recordings=args.recordings) for name, each in renders.items()}
    output = Output(args, named)
    trace = open_trace(args)
    output.write(api.flame(trace, chosen_stacks(trace, args)))
    return 0


def _exporter(args: Namespace) -> exporters.StackExporter | None:
    """Return the exporter of stacks that the suffix of the output names, if it does."""
    if args.output == STDOUT or args.format is not None:
        return None
    plugins.load("exporters")
    name = Path(args.output).name.lower()
    found = (each for each in exporters.EXPORTERS if isinstance(each, exporters.StackExporter))
    return next((each for each in found if name.endswith(each.ending)), None)


def _write_page(args: Namespace) -> int:
    """Write the page and print its path."""
    target = Path(args.output)
    check_output(target, overwrite=args.force_overwrite)
    trace = open_trace(args)
    report = api.make_flame_report(trace, chosen_stacks(trace, args))
    page.write(target, report.pieces)
    if not args.quiet:
        print_trace_warnings(trace)
        talk.note(f"wrote {format_bytes(target.stat().st_size)}; the file opens in a browser")
    return write_text(args.output)
