"""From which difference on two runs differ, and which one is a failure: options of comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from warpline.cli.sides import share_of

if TYPE_CHECKING:
    from argparse import Namespace, _ArgumentGroup

_STATUSES = {"slower": 3, "undecided": 4}


class Limits(NamedTuple):
    """What the options say, as shares of the step time; None where they say nothing.

    Attributes:
        tolerance: Differences up to this count as the same; that of `fail_on` unless it is given.
        fail_on: This much more time is a failure.
    """

    tolerance: float | None
    fail_on: float | None

    def status(self, verdict: str) -> int:
        """Return the exit status: 0, or with `fail_on` 3 if slower and 4 if undecided."""
        return 0 if self.fail_on is None else _STATUSES.get(verdict, 0)


def add_limits(group: _ArgumentGroup, slower: str = "steps") -> None:
    """Declare the options.

    Args:
        group: Where.
        slower: What may take more time.
    """
    group.add_argument(
        "--tolerance",
        metavar="SHARE",
        help="difference in step time that counts as the same, such as 2%% (default: 2%%)",
    )
    group.add_argument(
        "--fail-on",
        metavar="SHARE",
        help=f"exit with status 3 if {slower} take this much more time, such as 5%%; 4 if"
        " undecided",
    )


def limits(args: Namespace) -> Limits:
    """Return what the options say.

    Raises:
        UsageError: A value is no share.
    """
    fail_on = None if args.fail_on is None else share_of("--fail-on", args.fail_on)
    tolerance = None if args.tolerance is None else share_of("--tolerance", args.tolerance)
    return Limits(fail_on if tolerance is None else tolerance, fail_on)
