"""The runs of application replay: which metrics each run of the program counts, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from warpline.counters.host_process import RefusedError
from warpline.counters.names import DURATION
from warpline.counters.plan import Host, Plan, Session
from warpline.errors import CounterError

# Counted in each run, so that changes of the clock between the runs are known.
CLOCK = "sm__cycles_elapsed.avg.per_second"
COMMON = (DURATION, CLOCK)


class Grouping(Host, Protocol):
    """A host that knows which metrics take one pass together: `HostProcess`."""

    def one_pass_groups(
        self, chip: str, names: Sequence[str], common: Sequence[str]
    ) -> list[list[str]]:
        """Return groups of metrics; RefusedError if it cannot."""


def runs_of(host: Grouping, planned: Plan) -> list[list[str]]:
    """Return the metrics of each run; those that take several passes even alone are in none.

    Raises:
        CounterError: This CUPTI cannot group metrics.
    """
    sessions = planned.sessions
    if planned.passes == 1:
        return [[metric.name for metric in planned.metrics]]
    return [group for session in sessions for group in _groups(host, planned.chip, session)]


def _groups(host: Grouping, chip: str, session: Session) -> list[list[str]]:
    names = [metric.name for metric in session.metrics]
    common = _common(host, chip, names)
    try:
        groups = host.one_pass_groups(chip, names, common)
    except RefusedError as error:
        raise CounterError(
            "--replay-mode application needs CUPTI 12.9 or later for these metrics",
            hint="use --replay-mode kernel, metrics of one pass, or pip install --upgrade"
            " nvidia-cuda-cupti",
        ) from error
    is_counted = any(common[0] in group for group in groups) if common else True
    if not is_counted and not {*names}.isdisjoint(common):
        groups.insert(0, [*common])  # they were asked for, and fit with nothing else
    return groups


def _common(host: Grouping, chip: str, names: Sequence[str]) -> Sequence[str]:
    """Return what can be counted together with metrics: the clock cannot with those of links."""
    try:
        host.passes(chip, [names[0], *COMMON])
    except RefusedError:
        return ()
    return COMMON
