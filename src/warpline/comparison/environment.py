"""The environment of both sides, and which differences forbid a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from warpline.lazy import lazy_pattern
from warpline.result.comparison import Effect, Fact
from warpline.result.profile import OF_CPU, Profile

Environment: TypeAlias = Mapping[str, str | None]

GPU, GPUS, RANKS, PROFILER, STEPS = "GPU", "number of GPUs", "ranks", "profiler", "steps"
GRAPHS, CLOCK = "CUDA graph trace", "GPU clock"
COUNTED_BY = "counted by"
SM_ACTIVE, DRAM_ACTIVE = "SM active (sampled)", "DRAM active (sampled)"
# What `warpline profile` records the version of; an analysis of another format has none of it.
FRAMEWORKS = frozenset({"PyTorch", "JAX", "TensorFlow", "CuPy", "Triton", "vLLM"})
# Differences that no statistics can separate from a change of the program.
_FORBIDS = {GPU, GPUS, RANKS, PROFILER, GRAPHS}
_INFORMS = {"command", "profiler version", STEPS, SM_ACTIVE, DRAM_ACTIVE}
_SAME_CLOCK = 0.02  # clocks that differ by less hardly change step times
_NUMBER = lazy_pattern(r"[0-9.]+")
_LEAST_SAME_WORK = 0.8  # of the smaller number of operations per step


def environment(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[Fact, ...]:
    """Return the facts of both sides: those that forbid a verdict first, equal ones last."""
    sides = ([run.environment for run in side] for side in (before, after))
    return facts(*sides, is_same_work=same_work(before, after))


def facts(
    before: Sequence[Environment], after: Sequence[Environment], *, is_same_work: bool = True
) -> tuple[Fact, ...]:
    """Return the facts of both sides: those that forbid a verdict first, equal ones last.

    Args:
        before: The facts of each run.
        after: The same of the other side.
        is_same_work: Whether steps that are found in different ways may be the same work.
    """
    names = dict.fromkeys(name for run in (*before, *after) for name in run)
    found = [_fact(name, before, after, is_same_work=is_same_work) for name in names]
    order: list[Effect | str] = ["forbids a verdict", "may be the reason", "information", ""]
    return tuple(sorted(found, key=lambda fact: order.index(fact.effect)))


def _fact(
    name: str,
    before: Sequence[Environment],
    after: Sequence[Environment],
    *,
    is_same_work: bool,
) -> Fact:
    old, new = _value(name, before), _value(name, after)
    if old == new:
        return Fact(name, old, new, "")
    if old is None or new is None:
        return Fact(name, old, new, "information")
    if name == STEPS and not is_same_work:
        return Fact(name, old, new, "forbids a verdict")
    if name == CLOCK and _same_clock(old, new):
        return Fact(name, old, new, "information")
    if name in _FORBIDS:
        return Fact(name, old, new, "forbids a verdict")
    return Fact(name, old, new, "information" if name in _INFORMS else "may be the reason")


def _value(name: str, runs: Sequence[Environment]) -> str | None:
    values = dict.fromkeys(run.get(name) for run in runs)
    known = [value for value in values if value is not None]
    return ", ".join(known) if known else None


def _same_clock(before: str, after: str) -> bool:
    """Return whether the mean clocks of two sides, as ``1980 MHz, 1965 MHz``, are about equal."""
    old, new = (_mean_number(text) for text in (before, after))
    return abs(old - new) <= _SAME_CLOCK * max(old, new)


def _mean_number(text: str) -> float:
    numbers = [float(number) for number in _NUMBER.findall(text)]
    return sum(numbers) / len(numbers) if numbers else 0.0


def same_work(before: Sequence[Profile], after: Sequence[Profile]) -> bool:
    """Return whether the steps of both sides launch about as many GPU operations."""
    return similar_counts(operations_per_step(before), operations_per_step(after))


def similar_counts(before: float, after: float) -> bool:
    """Return whether two numbers of GPU operations per step may be those of the same work."""
    return min(before, after) >= _LEAST_SAME_WORK * max(before, after)


def operations_per_step(runs: Sequence[Profile]) -> float:
    """Return the number of GPU operations per step."""
    counts: list[float] = [
        count
        for run in runs
        for name, count in zip(run.items.names, run.items.executions.tolist(), strict=True)
        if name.kind not in OF_CPU
    ]
    return sum(counts) / len(runs)
