"""``warpline kernels``: hardware counters per kernel launch, read from Nsight Compute's reports."""

from __future__ import annotations

import io
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.cli import planning, talk
from warpline.cli.arguments import require_recordings
from warpline.cli.messages import print_trace_warnings
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline import api
    from warpline.documents import kernel_filters as filters
    from warpline.documents import kernel_pages as documents
    from warpline.render import kernel_listings as listings
    from warpline.render import kernel_pages as pages
    from warpline.trace import Trace
else:
    api = lazy("warpline.api")
    filters = lazy("warpline.documents.kernel_filters")
    documents = lazy("warpline.documents.kernel_pages")
    listings = lazy("warpline.render.kernel_listings")
    pages = lazy("warpline.render.kernel_pages")

NAME = "kernels"
HELP = "print counters per kernel launch, with the pages and filters of ncu --import"

PARTS = (planning.PLAN,)
_NAME_BASES = ("function", "demangled", "mangled")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} [--import] REPORT... [OPTIONS]"
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="REPORT",
        help="report to read, such as run.ncu-rep; several are merged",
    )
    parser.add_argument(
        "-i",
        "--import",
        dest="imported",
        action="append",
        default=[],
        metavar="REPORT",
        help="the same, as in ncu",
    )
    _add_filters(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--page",
        choices=("details", "raw", "source", "session"),
        default="details",
        help="details: sections and rules; raw: all metrics; source: metrics per instruction;"
        " session: program, machine and GPUs (default: details)",
    )
    group.add_argument("--csv", action="store_true", help="print comma-separated values")
    group.add_argument("--json", action="store_true", help="print the metrics as JSON, unscaled")
    group.add_argument(
        "--print-units",
        choices=("auto", "base"),
        default="auto",
        help="auto: scale values to units that fit; base: as collected (default: auto)",
    )
    group.add_argument(
        "--print-kernel-base",
        choices=_NAME_BASES,
        default="demangled",
        help="which name to print (default: demangled)",
    )
    group.add_argument(
        "--print-metric-name",
        choices=("label", "name"),
        default="label",
        help="print metrics of the details page with their label or their name (default: label)",
    )
    group.add_argument(
        "--print-summary",
        choices=("none", "per-gpu", "per-kernel"),
        default="none",
        help="print minimum, maximum and mean of the launches on each GPU, or of each kernel",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print only data and errors")


def _add_filters(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("filters")
    group.add_argument(
        "-k",
        "--kernel-name",
        metavar="NAME|regex:EXPRESSION",
        help="keep launches of kernels with this name",
    )
    group.add_argument(
        "--kernel-name-base",
        choices=_NAME_BASES,
        default="function",
        help="which name -k and --kernel-id compare (default: function)",
    )
    group.add_argument(
        "--kernel-id",
        action="append",
        default=[],
        metavar="CONTEXT:STREAM:NAME:INVOCATION",
        help="keep these launches; empty parts match all, invocations count from 1 (repeatable)",
    )
    group.add_argument(
        "-s", "--launch-skip", type=int, default=0, metavar="N", help="skip the first N launches"
    )
    group.add_argument(
        "-c", "--launch-count", type=int, metavar="N", help="keep N launches after those"
    )
    group.add_argument(
        "--launch-skip-before-match",
        type=int,
        default=0,
        metavar="N",
        help="skip the first N launches, whatever their name",
    )
    group.add_argument(
        "--section",
        action="append",
        default=[],
        metavar="ID|regex:EXPRESSION",
        help="print only this section on the details page (repeatable)",
    )
    group.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="NAME|regex:EXPRESSION[,...]",
        help="print only these metrics on the pages raw and source, and in JSON (repeatable)",
    )


def part(words: Sequence[str]) -> planning.Plan | None:
    """Return the part of the command that the words mean; None if they name reports."""
    return planning.PLAN if planning.is_meant(words) else None


def run(args: Namespace) -> int:
    """Print the page."""
    args.recordings = [*args.recordings, *args.imported]
    require_recordings(args)
    for option in ("launch_skip", "launch_count", "launch_skip_before_match"):
        if (getattr(args, option) or 0) < 0:
            raise UsageError(f"--{option.replace('_', '-')} {getattr(args, option)}: must be >= 0")
    trace = api.open(*args.recordings)
    choice = filters.Choice(
        name=args.kernel_name,
        name_base=args.kernel_name_base,
        ids=tuple(args.kernel_id),
        skip=args.launch_skip,
        count=args.launch_count,
        skip_before_match=args.launch_skip_before_match,
        sections=tuple(args.section),
        metrics=tuple(name for names in args.metrics for name in names.split(",") if name),
    )
    out = io.StringIO()
    if args.page == "session":
        listings.write_session(documents.session(trace), out, as_csv=args.csv)
    elif args.page == "source":
        code = documents.listings(trace, choice, shown_name=args.print_kernel_base)
        listings.write_source(code, out, as_csv=args.csv)
    else:
        _write_launches(args, trace, choice, out)
    if out.tell():
        write_text(out.getvalue())
    if not args.quiet:
        print_trace_warnings(trace)
    return 0


def _write_launches(
    args: Namespace, trace: Trace, choice: filters.Choice, out: io.StringIO
) -> None:
    """Write the page details or raw, or a summary of it."""
    launches = documents.launches(trace, choice, shown_name=args.print_kernel_base)
    if args.print_metric_name == "name":
        launches = [documents.with_metric_names(launch) for launch in launches]
    if not launches and not args.quiet:
        talk.warning("the filters exclude all launches")
    is_scaled = args.print_units == "auto"
    if args.json:
        listings.write_json(launches, out)
    elif args.print_summary != "none":
        groups = documents.summaries(
            launches, by_kernel=args.print_summary == "per-kernel", is_raw=args.page == "raw"
        )
        listings.write_summaries(groups, out, is_scaled=is_scaled, as_csv=args.csv)
    elif args.page == "raw":
        write = pages.write_raw_csv if args.csv else pages.write_raw
        write(launches, out, is_scaled=is_scaled)
    else:
        write = pages.write_details_csv if args.csv else pages.write_details
        write(launches, out, is_scaled=is_scaled)
