"""Which page `report` and `view` show: the timeline, or that of profiled kernels."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.documents import kernel_report
    from warpline.trace import Trace
else:
    kernel_report = lazy("warpline.documents.kernel_report")


def add_page(parser: ArgumentParser) -> None:
    """Declare the option that chooses the page."""
    parser.add_argument(
        "--page",
        choices=("timeline", "kernels"),
        help="what to show: the timeline, or summary, sections and source of profiled kernels, as"
        " of a report of Nsight Compute (default: the timeline if the recording has one)",
    )


def note_other_page(trace: Trace, args: Namespace) -> None:
    """Name the page that is not shown, if the recording has both."""
    if args.page is None and kernel_report.has_both(trace):
        talk.note("the recording also has profiled kernels: --page kernels shows them")
