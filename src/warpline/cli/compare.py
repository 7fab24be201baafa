"""``warpline compare``: what differs between two runs, whether it is noise, and why."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import add_output, add_steps
from warpline.cli.limits import add_limits, limits
from warpline.cli.output import Output
from warpline.cli.sides import add_sides, sides
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, result
    from warpline.cli import freed_memory
    from warpline.render import comparison as rendering
    from warpline.result import Document
    from warpline.result import kernel_comparison as counted
    from warpline.result.comparison import Comparison
    from warpline.result.kernel_comparison import KernelComparison
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    result = lazy("warpline.result")
    counted = lazy("warpline.result.kernel_comparison")
    freed_memory = lazy("warpline.cli.freed_memory")
    rendering = lazy("warpline.render.comparison")

NAME = "compare"
HELP = "compare two runs, or counters of kernels: what changed, and what is noise"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "recordings", nargs="*", metavar="RECORDING", help="one run before, one after the change"
    )
    parser.usage = (
        f"{parser.prog} BEFORE AFTER [OPTIONS]\n"
        f"       {parser.prog} --before A... --after B... [OPTIONS]"
    )
    add_sides(parser)
    group = parser.add_argument_group("comparison")
    add_steps(group)
    add_limits(group, "steps (of counters: launches of a kernel)")
    group.add_argument(
        "--tables",
        metavar="NAME[,NAME]",
        help="also compare these tables by their keys, such as cuda_api_sum",
    )
    add_output(parser, formats="text, json, markdown, csv (the parts, or --tables)")


def run(args: Namespace) -> int:
    """Print the comparison; with --fail-on, status 3 for a regression and 4 if undecided."""
    before, after = sides(args)
    limit = limits(args)
    output = Output(
        args,
        {
            "text": rendering.render_text,
            "markdown": rendering.render_markdown,
            "json": rendering.render_json,
        },
    )
    freed_memory.reuse()
    compared = api.compared(
        before,
        after,
        steps=args.steps,
        tolerance=limit.tolerance,
        paired=args.paired,
        tables=tuple(filter(None, (args.tables or "").split(","))),
        keep_going=not args.debug,
    )
    for section in compared.sections:
        if isinstance(section, result.Skipped):
            talk.warning(f"{section.name}: {section.reason}")
            if section.hint:
                talk.hint(section.hint)
    output.write(_with_table(compared) if output.format == "csv" else compared)
    return limit.status(compared.verdict)


def _with_table(compared: Comparison | KernelComparison) -> Document:
    """Return the comparison with its own table as the only one, unless tables were asked for."""
    if compared.sections:
        return compared
    if isinstance(compared, counted.KernelComparison):
        return dataclasses.replace(compared, sections=(compared.kernels_table(),))
    return dataclasses.replace(compared, sections=(compared.parts_table(),))
