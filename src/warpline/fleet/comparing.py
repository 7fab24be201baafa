"""Two jobs compared: their steps by the statistics of `compare`, then waits, ranks and machines.

The steps of a job are the samples, not those of each rank (see `sides`). Ranks are matched by
number; in jobs of different size, each rank's step is still a step, so times are compared per rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpline.comparison.compare import compare
from warpline.comparison.statistics import DEFAULT_TOLERANCE
from warpline.fleet.changes import Sampled, collective_changes, host_changes, rank_changes, tested
from warpline.fleet.environments import WORLD
from warpline.fleet.sides import JobSide, without_waits
from warpline.result.comparison import Comparison, Fact
from warpline.result.fleet import LeftOut, Straggler
from warpline.result.fleet_comparison import (
    FleetComparison,
    LateChange,
    LateSide,
    StragglerChange,
    WaitChanges,
)
from warpline.units import plural

_NAMED = 4  # machines or ranks in a sentence
_LATE_WORDS: tuple[tuple[LateChange, str, str], ...] = (
    ("new", "now delays", "now delay"),
    ("gone", "no longer delays", "no longer delay"),
    ("same", "still delays", "still delay"),
)


def compare_jobs(
    before: Sequence[JobSide],
    after: Sequence[JobSide],
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    paired: bool = False,
) -> FleetComparison:
    """Compare two sides, each one job or several.

    Args:
        before: Its jobs, at least one.
        after: The jobs of the other side, at least one.
        tolerance: Relative difference of the step time that counts as the same.
        paired: Whether the jobs were run in turn; then both sides have equally many.
    """
    has_waits = all(job.fleet.collectives for side in (before, after) for job in side)
    if not has_waits:  # whom others wait for is unknown on a side, not gone
        before, after = (tuple(map(without_waits, side)) for side in (before, after))
    sides, pairs = (before, after), len(before) if paired else 0
    steps = compare(
        [job.profile for job in before],
        [job.profile for job in after],
        tolerance=tolerance,
        paired=paired,
    )
    late = straggler_changes(before, after)
    said = (steps.sentence, *_late_sentences(late, _others(sides)), *_sizes(steps))
    left_out = tuple(tuple(item for job in side for item in job.fleet.left_out) for side in sides)
    return FleetComparison(
        steps=replace(
            steps,
            title=f"{_title(before)} and {_title(after)}",
            sentence=" ".join(said),
            environment=(*_host_facts(before, after), *steps.environment),
            limits=(*_limits(steps, left_out, has_waits=has_waits), *steps.limits),
            before=replace(steps.before, title=_title(before)),
            after=replace(steps.after, title=_title(after)),
        ),
        waits=_waits(before, after, pairs) if has_waits else None,
        stragglers=late,
        ranks=rank_changes(before, after, pairs),
        collectives=collective_changes(before, after, pairs),
        hosts=host_changes(before, after, pairs),
        left_out=(left_out[0], left_out[1]),
    )


def _title(jobs: Sequence[JobSide]) -> str:
    first = jobs[0].profile.title
    return first if len(jobs) == 1 else f"{first} and {plural(len(jobs) - 1, 'more job')}"


def _waits(before: Sequence[JobSide], after: Sequence[JobSide], pairs: int) -> WaitChanges:
    # Waits come from what the CPUs of ranks do differently, transfers do not.
    names = (("wait_ns", 1.0), ("exposed_ns", 1.0), ("transfer_ns", 0.0))
    samples = [
        Sampled(
            [getattr(job, name) for job in before], [getattr(job, name) for job in after], share
        )
        for name, share in names
    ]
    return WaitChanges(*tested(samples, pairs))


def straggler_changes(
    before: Sequence[JobSide], after: Sequence[JobSide]
) -> tuple[StragglerChange, ...]:
    """Return which ranks others wait for on one side, or on both: new, gone, then the same.

    A rank is one of a side if it is one in most of its jobs.
    """
    old, new = _late(before), _late(after)
    found = []
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        shown = now or was
        assert shown is not None
        change: LateChange = "same" if was and now else "new" if now else "gone"
        found.append(
            StragglerChange(shown.name, shown.rank, change, _late_side(was), _late_side(now))
        )
    order = [change for change, _, _ in _LATE_WORDS]
    return tuple(sorted(found, key=lambda item: order.index(item.change)))


def _late(jobs: Sequence[JobSide]) -> dict[int | str, Straggler]:
    every: dict[int | str, list[Straggler]] = {}
    for job in jobs:
        for item in job.fleet.stragglers:
            every.setdefault(item.name if item.rank is None else item.rank, []).append(item)
    return {
        key: max(items, key=lambda item: item.more_ns)
        for key, items in every.items()
        if 2 * len(items) > len(jobs)
    }


def _late_side(item: Straggler | None) -> LateSide | None:
    if item is None:
        return None
    return LateSide(item.host, item.pattern, item.role, item.cause, item.text, item.more_ns)


def _others(sides: Sequence[Sequence[JobSide]]) -> str:
    is_pair = all(len(job.fleet.ranks) == 2 for side in sides for job in side)
    return "the other rank" if is_pair else "the others"


def _late_sentences(changes: Sequence[StragglerChange], others: str) -> list[str]:
    said = []
    for change, of_one, of_many in _LATE_WORDS:
        own = [item for item in changes if item.change == change]
        if own:
            said.append(f"{_names(own)} {of_one if len(own) == 1 else of_many} {others}.")
    return said


def _names(items: Sequence[StragglerChange]) -> str:
    numbers = [str(item.rank) for item in items if item.rank is not None]
    if len(numbers) < len(items):
        return _listed([item.name for item in items])
    return f"{'Rank' if len(numbers) == 1 else 'Ranks'} {_listed(numbers)}"


def _listed(words: Sequence[str]) -> str:
    if len(words) > _NAMED:
        return f"{', '.join(words[:_NAMED])} and {len(words) - _NAMED} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _sizes(steps: Comparison) -> list[str]:
    """Return a sentence about different numbers of ranks, if they differ."""
    fact = _world(steps)
    if fact is None:
        return []
    return [f"The jobs have {fact.before} and {fact.after} ranks: times are per rank."]


def _world(steps: Comparison) -> Fact | None:
    return next((item for item in steps.environment if item.name == WORLD and item.effect), None)


def _limits(
    steps: Comparison, left_out: Sequence[Sequence[LeftOut]], *, has_waits: bool
) -> list[str]:
    said = []
    for name, items in zip(("before", "after"), left_out, strict=True):
        if items:
            said.append(
                f"{plural(len(items), 'recording')} left out {name}: nothing is known of these"
                " ranks, and waits for them count as transfers."
            )
    if _world(steps) is not None:
        said.append(
            "In jobs of different size, a step of a rank may be other work: another share of the"
            " batch, or another shard of the model."
        )
    if not has_waits:
        said.append("No collectives are matched on a side: waits for ranks are not compared.")
    return said


def _host_facts(before: Sequence[JobSide], after: Sequence[JobSide]) -> list[Fact]:
    """Return a fact about machines that are on one side only."""
    old, new = (
        {rank.host for job in side for rank in job.fleet.ranks if rank.host is not None}
        for side in (before, after)
    )
    if not old or not new or old == new:
        return []
    texts = []
    for own, other in ((old, new), (new, old)):
        only = sorted(own - other)
        texts.append(f"{_listed(only)} (of {len(own)})" if only else f"none other (of {len(own)})")
    return [Fact("hosts on one side only", texts[0], texts[1], "may be the reason")]
