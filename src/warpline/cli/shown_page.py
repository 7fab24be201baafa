"""Which page `report` and `view` show: the timeline, or that of profiled kernels."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.cli import kernel_references
    from warpline.documents import kernel_report
    from warpline.hardware.measured import MeasuredCeilings
    from warpline.trace import Trace
else:
    kernel_references = lazy("warpline.cli.kernel_references")
    kernel_report = lazy("warpline.documents.kernel_report")


def add_page(parser: ArgumentParser) -> None:
    """Declare the options of the page."""
    parser.add_argument(
        "--page",
        choices=("timeline", "kernels"),
        help="what to show: the timeline, or summary, sections and source of profiled kernels, as"
        " of a report of Nsight Compute (default: the timeline if the recording has one)",
    )
    parser.add_argument(
        "--ceilings",
        action="append",
        default=[],
        metavar="FILE|nominal",
        help="of profiled kernels: results of warpline bench -o, measured ceilings of rooflines"
        " and findings (default: those of warpline bench --save, of the same GPU model); nominal:"
        " without (repeatable)",
    )


def measured_ceilings(trace: Trace, args: Namespace) -> Sequence[MeasuredCeilings]:
    """Return the measured ceilings for the page of profiled kernels, and name their files.

    Where both pages could be shown and none was asked for, a note names the other one.
    """
    if args.page is None and kernel_report.has_both(trace):
        talk.note("the recording also has profiled kernels: --page kernels shows them")
    if kernel_report.shown(trace, args.page) != "kernels":
        return ()
    found = kernel_references.measured(args.ceilings, trace)
    if not getattr(args, "quiet", False):
        found.tell()
    return found.measured


def require_timeline(trace: Trace) -> None:
    """Raise a UsageError if a recording has profiled kernels only, of which there are no images."""
    if kernel_report.shown(trace, None) == "kernels":
        raise images_of_timelines()


def images_of_timelines() -> UsageError:
    """Return the error that there are no images of profiled kernels."""
    return UsageError("images show the timeline only", hint="use -o FILE.html")
