"""Sides of comparisons for tests, without recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from warpline.result import Finding
from warpline.result.profile import ItemName, Items, PartName, Profile

GEMM, COPY = PartName("gemm", "busy"), PartName("copy-h2d", "busy")
SYNC = PartName("host-sync", "idle")
MACHINE = {"GPU": "H200", "number of GPUs": "1", "ranks": "1", "profiler": "Warpline"}


def kernel(name: str, shape: str = "1 of 32", category: str = "gemm") -> ItemName:
    """Return a kernel."""
    return ItemName("kernel", name, name, shape, category)


def items(named: Mapping[ItemName, Sequence[float]], executions: float = 1.0) -> Items:
    """Return items with a time in each step, in order of position."""
    steps = max((len(times) for times in named.values()), default=0)
    count, ns = len(named), np.array([*named.values()], np.float64).reshape(len(named), steps)
    means = ns.mean(axis=1) if steps else np.zeros(count)
    each = np.full(count, executions)
    return Items(
        names=tuple(named),
        executions=each,
        ns=means,
        duration_ns=means / each,
        bytes=np.zeros(count),
        position_ns=np.arange(count, dtype=np.float64),
        cell_item=np.repeat(np.arange(count), steps),
        cell_place=np.tile(np.arange(steps), count),
        cell_ns=ns.reshape(-1),
    )


def profile(
    step_ns: Sequence[float],
    parts: Mapping[PartName, float] | None = None,
    work: Items | None = None,
    *,
    source: str = "range:step_*",
    environment: Mapping[str, str | None] = MACHINE,
    findings: tuple[Finding, ...] = (),
    recorder: str = "Warpline",
    title: str = "run",
) -> Profile:
    """Return a run; without parts, all time is GEMMs."""
    mean = sum(map(Fraction, step_ns), Fraction(0)) / max(len(step_ns), 1)
    exact = {GEMM: mean} if parts is None else {name: Fraction(ns) for name, ns in parts.items()}
    return Profile(
        title=title,
        paths=(title,),
        source=source,
        step_ns=np.array(step_ns, np.float64),
        parts=exact,
        items=items({}) if work is None else work,
        findings=findings,
        environment=environment,
        recorder=recorder,
    )


def finding(rule: str, title: str, saving_ns: int | None = 1000) -> Finding:
    """Return a finding."""
    return Finding(rule, "high", title, "claim", (), "fix", "verify", saving_ns=saving_ns)
