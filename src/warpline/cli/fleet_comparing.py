"""``warpline fleet compare``: whether a change made the steps of a job of many ranks faster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING

from warpline.cli.arguments import add_output, add_steps
from warpline.cli.fleet_workers import (
    FORMATS,
    PAGE,
    add_workers,
    checked_format,
    write_answer,
    write_page,
)
from warpline.cli.limits import add_limits, limits
from warpline.cli.sides import add_sides
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline import api
    from warpline.cli import freed_memory
    from warpline.render import fleet_comparison as rendering
else:
    api = lazy("warpline.api")
    freed_memory = lazy("warpline.cli.freed_memory")
    rendering = lazy("warpline.render.fleet_comparison")

_SIDES = 2
_USAGE = "warpline fleet compare 'run1/*.warpline' 'run2/*.warpline'"


class Compare:
    """The part ``compare`` of the command ``fleet``."""

    NAME = "fleet compare"
    HELP = "compare two jobs of many ranks: step time, stragglers, ranks, collectives, machines"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "jobs",
            nargs="*",
            metavar="JOB",
            help="the recordings of one job before and one after the change: quoted patterns such"
            " as 'run1/*.warpline', or directories",
        )
        parser.usage = (
            f"{parser.prog} BEFORE AFTER [OPTIONS]\n"
            f"       {parser.prog} --before A... --after B... [OPTIONS]"
        )
        add_sides(
            parser,
            "JOB",
            "jobs",
            "each quoted pattern or directory is one; files with distinct ranks are one",
        )
        add_workers(parser)
        group = parser.add_argument_group("comparison")
        add_steps(group)
        add_limits(group)
        add_output(
            parser,
            formats=", ".join(FORMATS),
            page="a page with bars and a map of ranks: .html or .zip",
        )

    def run(self, args: Namespace) -> int:
        """Print the comparison; with --fail-on, status 3 for a regression and 4 if undecided."""
        before, after = _jobs(args)
        limit = limits(args)
        name = checked_format(args)
        freed_memory.reuse()
        freed_memory.share()
        found = api.compare_fleets(
            before,
            after,
            workers=args.workers,
            scheduler=args.scheduler,
            steps=args.steps,
            tolerance=limit.tolerance,
            paired=args.paired,
        )
        if name == PAGE:
            write_page(found, found.sentence, args)
        else:
            write_answer(partial(rendering.WRITERS[name], found), args.output)
        return limit.status(found.verdict)


COMPARE = Compare()


def _jobs(args: Namespace) -> tuple[list[str], list[str]]:
    """Return what names the jobs of both sides.

    Raises:
        UsageError: A side is missing, or more than two are named.
    """
    if args.before or args.after:
        if args.jobs or not (args.before and args.after):
            raise UsageError(
                "name both sides: --before and --after",
                hint="warpline fleet compare --before 'a1/*' 'a2/*' --after 'b1/*' 'b2/*'",
            )
        return list(args.before), list(args.after)
    if not args.jobs:
        raise UsageError("missing BEFORE and AFTER arguments", hint=_USAGE)
    if len(args.jobs) != _SIDES:
        raise UsageError(
            f"two jobs are compared, {len(args.jobs)} arguments given",
            hint=f"quote patterns: {_USAGE}; for several jobs, use --before and --after",
        )
    return [args.jobs[0]], [args.jobs[1]]
