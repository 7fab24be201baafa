"""The parallel groups of a job, recognized by which ranks communicate, how, and when in a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from warpline.fleet.chains import Chain, chains_of
from warpline.fleet.jobs import Job
from warpline.fleet.kinds import Kind, kind_of
from warpline.fleet.matching import Group
from warpline.fleet.traffic import Traffic, traffic_of
from warpline.ops.arrays import I64

_COVERED = 0.9  # of the ranks: less is no dimension of the job's layout
_SURE = 2  # ranks of a job: without communicators, more may be several groups
_IN_PRODUCT = ("tensor", "context", "pipeline", "sharded-data", "data")
_SHORT = {"tensor": "TP", "context": "CP", "pipeline": "PP", "sharded-data": "FSDP", "data": "DP"}
_NESTED = (("data", "context"), ("data", "sharded-data"), ("sharded-data", "context"))

_MESH = "ranks send to more than two others"

Set = tuple[int, ...]


class Dimension(NamedTuple):
    """Groups of ranks of one kind.

    Attributes:
        kind: ``tensor``, ``pipeline``, ``data``, ``sharded-data``, ``context``, ``expert``,
            ``all`` (groups of other groups: norms and checks) or ``unclear``.
        groups: The ranks of each, places in the job, the first one's first.
        calls: What a rank calls per step, by operation: of the usual group.
        why: What shows the kind, in words.
        is_sent: Whether they send and receive, instead of meeting in collectives.
    """

    kind: Kind
    groups: tuple[Set, ...]
    calls: tuple[tuple[str, float], ...]
    why: str
    is_sent: bool = False

    @property
    def size(self) -> int:
        """Ranks in the usual group."""
        return Counter(len(group) for group in self.groups).most_common(1)[0][0]


class Layout(NamedTuple):
    """The parallel groups of a job.

    Attributes:
        dimensions: The kinds of groups, tensor-parallel ones first.
        text: Such as ``TP 8 x PP 2 x DP 4``; "" if the groups do not make up the job.
        stage: Shape (ranks,), int64, the pipeline stage of each rank; -1 for none.
        units: Microbatches that pass each stage per step, times its chunks; 0 if unknown.
    """

    dimensions: tuple[Dimension, ...]
    text: str
    stage: I64
    units: float

    @property
    def stages(self) -> int:
        """Number of pipeline stages; 0 without a pipeline."""
        return int(self.stage.max(initial=-1)) + 1


def layout_of(job: Job, groups: Sequence[Group]) -> Layout:
    """Return the parallel groups of a job, from its matched collectives, sends and receives."""
    traffic, chains = traffic_of(job, groups), chains_of(job)
    found = [*_of_chains(chains), *_of_unknown_peers(job, chains)]
    kinds = [(item, *kind_of(item)) for item in traffic]
    inner = [item.ranks for item, kind, _ in kinds if kind == "tensor"]
    inner += [group for item in found if item.kind == "pipeline" for group in item.groups]
    inner_of = _numbers(len(job), inner)
    linked = {rank for chain in chains for rank in chain.ranks}
    for item, kind, why in kinds:
        if not job.has_steps:
            found.append(_alone("unclear", item, "there are no steps in which to place them"))
        elif not item.is_named and len(job) > _SURE:
            found.append(_alone("unclear", item, "no communicators are recorded"))
        elif item.early is not None and linked.isdisjoint(item.ranks):
            found.append(_alone("unclear", item, "its ranks send to unknown ones"))
        elif kind in {"data", "unclear"} and _joins(item.ranks, inner_of):
            found.append(_alone("all", item, "joins ranks of the same model: norms and checks"))
        else:
            found.append(_alone(kind, item, why))
    known = [number for number in job.numbers if number is not None]
    is_known = len(known) == len(job)
    merged = _merged(found, known if is_known else range(len(job)))
    stage, units = _stages(len(job), merged, chains, has_steps=job.has_steps)
    world = max(known) + 1 if is_known else len(job)
    return Layout(tuple(merged), _text(len(job), world, merged), stage, units)


def _alone(kind: Kind, item: Traffic, why: str) -> Dimension:
    calls = tuple(sorted(item.calls.items(), key=lambda pair: -pair[1]))
    return Dimension(kind, (item.ranks,), calls, why)


def _of_chains(chains: Sequence[Chain]) -> Iterator[Dimension]:
    for chain in chains:
        calls = (("Send", chain.units),) if chain.units else ()
        if chain.shape == "mesh":
            yield Dimension("unclear", (chain.ranks,), calls, _MESH, is_sent=True)
        elif chain.is_round:
            why = "data goes round a ring of ranks"
            if len(chain.ranks) == 2:
                why = "both send and receive at once: a pipeline sends before it receives"
            yield Dimension("context", (chain.ranks,), calls, why, is_sent=True)
        else:
            why = "each sends to the next rank and back"
            yield Dimension("pipeline", (chain.ranks,), calls, why, is_sent=True)


def _of_unknown_peers(job: Job, chains: Sequence[Chain]) -> Iterator[Dimension]:
    linked = {rank for chain in chains for rank in chain.ranks}
    rest = tuple(
        rank
        for rank, summary in enumerate(job.ranks)
        if summary.identity.sends and rank not in linked
    )
    if rest:
        why = "they send and receive, but their peers are not recorded (NCCL's NVTX ranges)"
        yield Dimension("unclear", (rest,), (), why, is_sent=True)


def _numbers(count: int, groups: Sequence[Set]) -> list[set[int]]:
    """Return the groups that each rank is in."""
    found: list[set[int]] = [set() for _ in range(count)]
    for number, group in enumerate(groups):
        for rank in group:
            found[rank].add(number)
    return found


def _joins(ranks: Set, inner_of: Sequence[set[int]]) -> bool:
    """Return whether two of some ranks are in one tensor-parallel group or pipeline."""
    seen: set[int] = set()
    for rank in ranks:
        if inner_of[rank] & seen:
            return True
        seen |= inner_of[rank]
    return False


def _merged(found: Sequence[Dimension], numbers: Sequence[int]) -> list[Dimension]:
    """Return dimensions: groups of one kind and shape that share no rank.

    Args:
        found: A dimension of each group.
        numbers: The number of each rank: places would differ where recordings are lost.
    """
    merged: list[tuple[Dimension, set[int]]] = []
    for item in sorted(found, key=lambda item: (-len(item.groups[0]), item.groups[0])):
        group = item.groups[0]
        for at, (other, taken) in enumerate(merged):
            both = ([numbers[rank] for rank in one] for one in (group, other.groups[0]))
            if other.kind == item.kind and taken.isdisjoint(group) and _fits(*both):
                merged[at] = (other._replace(groups=(*other.groups, group)), taken | set(group))
                break
        else:
            merged.append((item, set(group)))
    kinds = (*_IN_PRODUCT, "expert", "all", "unclear")
    dimensions = [item for item, _ in merged]
    return sorted(dimensions, key=lambda item: (kinds.index(item.kind), -len(item.groups)))


def _fits(group: Sequence[int], first: Sequence[int]) -> bool:
    """Return whether ranks lie like those of another group, of which some may be lost."""
    if len(group) == len(first):
        return all(a - group[0] == b - first[0] for a, b in zip(group, first, strict=True))
    steps = {b - a for a, b in pairwise(first)}
    return len(steps) == 1 and all((rank - group[0]) % min(steps) == 0 for rank in group)


def _stages(
    count: int, merged: Sequence[Dimension], chains: Sequence[Chain], *, has_steps: bool
) -> tuple[I64, float]:
    stage = np.full(count, -1, np.int64)
    pipelines = [item for item in merged if item.kind == "pipeline"]
    if not pipelines:
        return stage, 0.0
    size = pipelines[0].size
    own = [chain for chain in chains if len(chain.ranks) == size and not chain.is_round]
    for chain in own:
        stage[list(chain.ranks)] = np.arange(size)
    units = {round(chain.units, 3) for chain in own}
    return stage, units.pop() if len(units) == 1 and has_steps else 0.0


def _text(count: int, world: int, merged: Sequence[Dimension]) -> str:
    """Return the layout in words if its dimensions make up the job; else an empty text.

    Args:
        count: Number of ranks with a recording.
        world: Number of ranks.
        merged: The dimensions.
    """
    sizes: dict[str, int] = {}
    first: dict[str, Dimension] = {}
    for item in merged:
        covered = sum(map(len, item.groups))
        if item.kind in _IN_PRODUCT and item.size > 1 and covered >= _COVERED * count:
            if item.kind in sizes:  # two of one kind: their names would not distinguish them
                return ""
            sizes[item.kind], first[item.kind] = item.size, item
    for outer, inner in (
        ("data", "context"),
        ("data", "sharded-data"),
        ("sharded-data", "context"),
    ):
        if outer in first and inner in first and _contains(first[outer], first[inner]):
            sizes[outer] //= sizes[inner]
    if not sizes or np.prod(list(sizes.values())) != world:
        return ""
    experts = [item.size for item in merged if item.kind == "expert"]
    parts = [f"{_SHORT[kind]} {sizes[kind]}" for kind in _IN_PRODUCT if sizes.get(kind, 1) > 1]
    return " x ".join(parts) + (f", EP {experts[0]}" if len(experts) == 1 else "")


def _contains(outer: Dimension, inner: Dimension) -> bool:
    """Return whether each inner group lies within an outer one."""
    group_of = {rank: at for at, group in enumerate(outer.groups) for rank in group}
    return all(len({group_of.get(rank, -1) for rank in group}) == 1 for group in inner.groups)
