"""Options that choose the stacks of a flame graph, which `flame` and `export` share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline.derived.flame import weighted
    from warpline.trace import Trace
else:
    weighted = lazy("warpline.derived.flame.weighted")


def add_stacks(parser: ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("stacks")
    group.add_argument(
        "--of",
        metavar="KIND",
        help="cpu: CPU samples; python: samples of Python threads, running or not; gpu: GPU time by"
        " the stack of the CUDA API call that launched it; offcpu: where threads stopped; os: OS"
        " calls (default: the first that was recorded)",
    )
    group.add_argument(
        "--thread",
        action="append",
        default=[],
        metavar="TID|NAME",
        help="keep only this thread, by number or part of its name (repeatable)",
    )
    group.add_argument(
        "--python-only",
        action="store_true",
        help="keep only Python frames and what they called last: kernels, OS calls",
    )


def is_chosen(args: Namespace) -> bool:
    """Return whether any of the options is given."""
    return args.of is not None or bool(args.thread) or bool(args.python_only)


def chosen_stacks(trace: Trace, args: Namespace) -> weighted.Choice:
    """Return what the options choose; see `warpline.derived.flame.weighted.choose` for errors."""
    return weighted.choose(trace, args.of, python_only=args.python_only, threads=tuple(args.thread))
