"""Rules about kernels: each finds one fault in counters and says what its repair would change."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.ops.arrays import F64, BoolArray
from warpline.registry import Registry


class Kind(enum.Enum):
    """What is known about the time after a repair.

    REMOVES: It takes away an excess that counters show, so there is an expected value.
    REPLACES: It replaces the algorithm: counters give a floor, and no expected value.
    NO_GAIN: A repair gains nothing, because another resource is near its ceiling.
    REARRANGES: It needs another layout of data, which may serve others: a floor, as with REPLACES.
    DONE: A resource is near its ceiling, so there is little to gain by any repair.
    """

    REMOVES = enum.auto()
    REPLACES = enum.auto()
    NO_GAIN = enum.auto()
    REARRANGES = enum.auto()
    DONE = enum.auto()

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault of the kernel itself."""
        return self in {Kind.REMOVES, Kind.REPLACES}

    @property
    def has_floor_only(self) -> bool:
        """Whether counters give a floor, and no expected value."""
        return self in {Kind.REPLACES, Kind.REARRANGES}


@dataclass(frozen=True)
class ShownAt:
    """Where in its code a fault of a kernel shows.

    Attributes:
        metrics: Names of metrics of code (`derived.code`), which are added up.
        noun: What they are, for a sentence: excess sectors.
    """

    metrics: tuple[str, ...]
    noun: str


def waiting_for(what: str, *stalls: str) -> ShownAt:
    """Return the samples of warps that wait for something, by the reasons of their stalls."""
    return ShownAt(tuple(f"stall_{stall}" for stall in stalls), f"samples that wait for {what}")


@dataclass(frozen=True)
class Proposal:
    """A fault of some launches.

    Attributes:
        kind: What is known about the time after its repair.
        title: The fault in a few words.
        applies: Which launches have it, shape (launches,).
        change: What a repair changes.
        claim: Says it with the numbers of a launch, by its row.
        fix: What to do.
        evidence: Names of the metrics that it rests on.
        counts: Further numbers that it rests on, by name, shape (launches,) each.
        shown_at: Where in the code it shows; None if nowhere in particular.
    """

    kind: Kind
    title: str
    applies: BoolArray
    change: Change
    claim: Callable[[int], str]
    fix: str
    evidence: tuple[str, ...]
    counts: Mapping[str, F64] = field(default_factory=dict)
    shown_at: ShownAt | None = None


Judge = Callable[[Launches], Sequence[Proposal]]


@dataclass(frozen=True)
class KernelRule:
    """A registered rule.

    Attributes:
        name: The id.
        title: The fault in a few words, without numbers.
        judge: Returns what it found in launches.
        doc: Its docstring, shown by `explain` and in the documentation.
    """

    name: str
    title: str
    judge: Judge
    doc: str


KERNEL_RULES: Registry[KernelRule] = Registry("kernel rule")


def kernel_rule(*, name: str, title: str) -> Callable[[Judge], Judge]:
    """Register the decorated function as a rule of `warpline kernels`.

    The function takes the launches and returns what it found, nothing without faults. Its docstring
    has the headings *What it finds*, *Why it matters*, *How it is found*, *What to do*, *Limits*
    and *Source*.
    """

    def register(judge: Judge) -> Judge:
        KERNEL_RULES.add(name, KernelRule(name, title, judge, judge.__doc__ or ""))
        return judge

    return register
