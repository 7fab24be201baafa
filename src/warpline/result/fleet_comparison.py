"""The result of `fleet compare`: what differs between two jobs of many ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from warpline.result.comparison import Comparison
from warpline.result.fleet import LeftOut

SCHEMA_VERSION = 1  # of the JSON that `fleet compare` writes

Presence = Literal["both", "new", "gone"]  # on both sides, only after, only before
LateChange = Literal["same", "new", "gone"]


@dataclass(frozen=True)
class TimeChange:
    """A time per step on both sides.

    Attributes:
        before_ns: Mean per step; None if the side has none of it.
        after_ns: The same of the other side.
        p: Probability of a difference this large if there were none; None if not tested.
        is_significant: Whether the difference is significant, at a false discovery rate of 5% among
            all differences of its kind.
    """

    before_ns: float | None
    after_ns: float | None
    p: float | None = None
    is_significant: bool = False

    @property
    def delta_ns(self) -> float:
        """After minus before; what is missing takes no time."""
        return (self.after_ns or 0.0) - (self.before_ns or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON."""
        return {**asdict(self), "delta_ns": self.delta_ns}


@dataclass(frozen=True)
class RankSide:
    """A rank on one side; times per step, means over its jobs, in ns.

    Attributes:
        path: Its recording; of several jobs, that of the first.
        host: Its machine; several are joined by commas; None if unknown.
        step_ns: Length of a step on its GPU.
        own_ns: Part of it without exposed waits for other ranks.
        wait_ns: How long it waits for others in collectives.
        exposed_wait_ns: The part of that in which its GPU computes nothing.
        caused_ns: How long all others together wait where it arrives last.
    """

    path: str
    host: str | None
    step_ns: float
    own_ns: float
    wait_ns: float
    exposed_wait_ns: float
    caused_ns: float


@dataclass(frozen=True)
class RankChange:
    """A rank of both jobs, or of one.

    Attributes:
        name: How it is called.
        rank: Its number; None if unknown.
        change: ``both``, ``new`` or ``gone``.
        before: None if it is new.
        after: None if it is gone.
        own: The time that it takes by itself.
    """

    name: str
    rank: int | None
    change: Presence
    before: RankSide | None
    after: RankSide | None
    own: TimeChange


@dataclass(frozen=True)
class LateSide:
    """A straggler on one side.

    Attributes:
        host: Its machine; None if unknown.
        pattern: As in `Straggler`.
        role: ``straggler`` or ``behind``.
        cause: As in `Straggler`.
        text: The cause in words.
        more_ns: How much longer it takes per step than its peers.
    """

    host: str | None
    pattern: str
    role: str
    cause: str
    text: str
    more_ns: float


@dataclass(frozen=True)
class StragglerChange:
    """A rank that the others wait for on at least one side.

    Attributes:
        name: How it is called.
        rank: Its number; None if unknown.
        change: ``same``: on both sides; ``new`` or ``gone``.
        before: None if it is new.
        after: None if it is gone.
    """

    name: str
    rank: int | None
    change: LateChange
    before: LateSide | None
    after: LateSide | None


@dataclass(frozen=True)
class CollectiveSide:
    """Collectives of one kind on one side, means over its jobs.

    Attributes:
        ranks: Ranks in each group.
        communicators: Number of groups.
        per_step: How many of them a rank takes part in per step.
        transfer_each_ns: From the last arrival to the end of one, median.
        bus_bytes_per_s: What a ring moves over each link in that time; None if unknown.
    """

    ranks: int
    communicators: int
    per_step: float
    transfer_each_ns: float
    bus_bytes_per_s: float | None


@dataclass(frozen=True)
class CollectiveChange:
    """Collectives of one operation, size and number of ranks.

    Attributes:
        operation: Such as AllReduce.
        bytes: Message size; None if unknown.
        change: ``both``, ``new`` or ``gone``.
        before: None if it is new.
        after: None if it is gone.
        wait: How long a rank waits in them for others, per step.
        transfer: From the last arrivals to their ends, per step.
    """

    operation: str
    bytes: int | None
    change: Presence
    before: CollectiveSide | None
    after: CollectiveSide | None
    wait: TimeChange
    transfer: TimeChange


@dataclass(frozen=True)
class HostChange:
    """A machine of both jobs, or of one.

    Attributes:
        name: Its name.
        change: ``both``, ``new`` or ``gone``.
        ranks_before: How many ranks it has before.
        ranks_after: The same after.
        own: The time that its ranks take by themselves, mean.
    """

    name: str
    change: Presence
    ranks_before: int
    ranks_after: int
    own: TimeChange


@dataclass(frozen=True)
class WaitChanges:
    """The time of a rank in collectives that all end together, mean over ranks.

    Attributes:
        wait: Waits for other ranks.
        exposed: The part of that in which the GPU computes nothing.
        transfer: The rest.
    """

    wait: TimeChange
    exposed: TimeChange
    transfer: TimeChange


@dataclass(frozen=True)
class FleetComparison:
    """What differs between two jobs, or two sets of jobs.

    Attributes:
        steps: The comparison of the steps, the mean over ranks: verdict, parts, environment.
        waits: Waits and transfers; None if no collectives are matched on a side.
        stragglers: The ranks that the others wait for on a side: new, gone, same.
        ranks: The ranks by number, those with the largest difference by themselves first.
        collectives: By kind, the largest difference first.
        hosts: The machines, the largest difference first; empty if unknown.
        left_out: Recordings that could not be used, before and after.
        workers: How the summaries were made, in words.
    """

    steps: Comparison
    waits: WaitChanges | None
    stragglers: tuple[StragglerChange, ...]
    ranks: tuple[RankChange, ...]
    collectives: tuple[CollectiveChange, ...]
    hosts: tuple[HostChange, ...]
    left_out: tuple[tuple[LeftOut, ...], tuple[LeftOut, ...]] = ((), ())
    workers: str = ""

    @property
    def verdict(self) -> str:
        """faster, slower, same, or undecided."""
        return self.steps.verdict

    @property
    def sentence(self) -> str:
        """The verdict with its interval and its main reason."""
        return self.steps.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fleet compare -f json``, as docs/fleet-compare.schema.json."""
        steps = self.steps.to_dict()
        same = ("title", "verdict", "sentence", "tolerance", "before", "after", "step", "parts")
        work = [*steps["kernels"], *steps["collectives"], *steps["copies"]]
        return {
            "schema_version": SCHEMA_VERSION,
            **{name: steps[name] for name in same},
            "work": [_category(item) for item in work],
            "waits": None
            if self.waits is None
            else {
                "wait": self.waits.wait.to_dict(),
                "exposed_wait": self.waits.exposed.to_dict(),
                "transfer": self.waits.transfer.to_dict(),
            },
            "stragglers": [asdict(item) for item in self.stragglers],
            "ranks": _plain(self.ranks, "own"),
            "collectives": _plain(self.collectives, "wait", "transfer"),
            "hosts": _plain(self.hosts, "own"),
            "findings": steps["findings"],
            "environment": steps["environment"],
            "left_out": {
                side: [asdict(item) for item in found]
                for side, found in zip(("before", "after"), self.left_out, strict=True)
            },
            "limits": steps["limits"],
            "workers": self.workers,
        }


def _category(item: dict[str, Any]) -> dict[str, Any]:
    """Return the GPU operations of one category, with what is known of them."""
    sides = {
        side: None
        if item[side] is None
        else {name: item[side][name] for name in ("count", "ns", "duration_ns")}
        for side in ("before", "after")
    }
    kept = ("category", "change", "delta_ns", "p", "is_significant")
    return {**{name: item[name] for name in kept}, **sides}


def _plain(items: Sequence[Any], *times: str) -> list[dict[str, Any]]:
    return [
        {**asdict(item), **{name: getattr(item, name).to_dict() for name in times}}
        for item in items
    ]
