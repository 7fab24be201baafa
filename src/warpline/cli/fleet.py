"""``warpline fleet``: one answer about all ranks of a job, and two jobs compared."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import STDOUT, add_output, add_steps
from warpline.cli.fleet_comparing import COMPARE, Compare
from warpline.cli.fleet_workers import (
    FORMATS,
    PAGE,
    add_workers,
    checked_format,
    write_answer,
    write_page,
)
from warpline.cli.startup import lazy
from warpline.errors import UsageError
from warpline.files import check_output, complete_file

if TYPE_CHECKING:
    from warpline import api, result
    from warpline.cli import freed_memory
    from warpline.render import fleet as rendering
    from warpline.result.fleet import Fleet
else:
    api = lazy("warpline.api")
    result = lazy("warpline.result")
    freed_memory = lazy("warpline.cli.freed_memory")
    rendering = lazy("warpline.render.fleet")

NAME = "fleet"
HELP = "analyze and compare jobs of many ranks: stragglers, hangs, causes, collectives"

_FOUND = 3  # exit status: findings at or above --fail-on


class Analyze:
    """The part ``analyze`` of the command ``fleet``."""

    NAME = "fleet analyze"
    HELP = "show where the time of all ranks goes, and which ranks delay the others"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "recordings",
            nargs="*",
            metavar="RECORDING",
            help="recordings of all ranks, in any format, directories of the PyTorch profiler, or"
            " dumps of PyTorch's flight recorder of a job that hangs (nccl_trace_rank_0);"
            " patterns such as 'run/*.warpline' may be quoted",
        )
        parser.usage = f"{parser.prog} [OPTIONS] RECORDING..."
        group = add_workers(parser)
        group.add_argument(
            "--dashboard",
            action="store_true",
            help="serve dask's dashboard and print its address",
        )
        analysis = parser.add_argument_group("analysis")
        add_steps(analysis)
        analysis.add_argument(
            "--fail-on",
            metavar="SEVERITY",
            help="exit with status 3 if a finding has this severity or higher: high, medium, low,"
            " info",
        )
        add_output(
            parser,
            formats=", ".join(FORMATS),
            page="a page with maps of ranks, steps and waits: .html or .zip",
        )
        parser.add_argument(
            "--parquet",
            metavar="FILE",
            help="also write a row per rank and step to this file: its parts, waits, in ns",
        )

    def run(self, args: Namespace) -> int:
        """Print the answer; status 3 for findings at or above --fail-on."""
        if not args.recordings:
            raise UsageError(
                "missing RECORDING argument", hint="warpline fleet analyze 'run/*.warpline'"
            )
        if args.fail_on is not None and args.fail_on not in result.SEVERITIES:
            raise UsageError(
                f"--fail-on: unknown severity {args.fail_on!r}",
                hint=f"use {', '.join(result.SEVERITIES)}",
            )
        name = _checked_output(args)
        freed_memory.reuse()
        freed_memory.share()
        found = api.fleet(
            args.recordings,
            workers=args.workers,
            scheduler=args.scheduler,
            steps=args.steps,
            early=None if args.quiet else _report_early,
            dashboard=_announce if args.dashboard else None,
        )
        _write_all(found, args, name)
        if args.fail_on is None:
            return 0
        grave = result.SEVERITIES[: result.SEVERITIES.index(args.fail_on) + 1]
        return _FOUND if any(item.severity in grave for item in found.findings) else 0


PARTS = (Analyze(), COMPARE)


def part(words: Sequence[str]) -> Analyze | Compare | None:
    """Return the part that the words name, if any."""
    return next((item for item in PARTS if words[:1] == [item.NAME.split()[1]]), None)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command without a part."""
    parser.usage = (
        f"{parser.prog} analyze RECORDING... [OPTIONS]\n"
        f"       {parser.prog} compare BEFORE AFTER [OPTIONS]"
    )
    parser.add_argument("words", nargs="*", metavar="PART", help="analyze or compare")


def run(args: Namespace) -> int:
    """Explain that a part is missing."""
    said = f"no part {args.words[0]!r}" if args.words else "missing PART argument"
    raise UsageError(
        said, hint="warpline fleet analyze 'run/*.warpline', or warpline fleet compare"
    )


def _report_early(found: Fleet) -> None:
    """Print the verdict about the first ranks, to someone who waits for the whole one."""
    if sys.stderr is not None and sys.stderr.isatty():
        talk.note(f"the first {len(found.ranks)} ranks so far: {found.verdict}")


def _announce(address: str) -> None:
    talk.note(f"dask's dashboard: {address}")


def _checked_output(args: Namespace) -> str:
    """Return the format, after checks that need no work to be done."""
    name = checked_format(args)
    if args.parquet is not None:
        target = Path(args.parquet)
        check_output(target, overwrite=args.force_overwrite)
        if args.output != STDOUT and target.absolute() == Path(args.output).absolute():
            raise UsageError("--parquet and -o name the same file", hint="use another name")
    return name


def _write_all(found: Fleet, args: Namespace, name: str) -> None:
    """Write the answer, and before it the rows for Parquet: what is printed last is the answer."""
    if args.parquet is not None:
        with complete_file(Path(args.parquet)) as unfinished:
            found.to_polars().write_parquet(unfinished)
        if not args.quiet:
            talk.note(f"wrote {args.parquet}")
    if name == PAGE:
        write_page(found, found.verdict, args)
    else:
        write_answer(partial(rendering.WRITERS[name], found), args.output)
