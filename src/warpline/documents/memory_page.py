"""The content of the page of memory: blocks, what they are named after, steps and phases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline import progress
from warpline.derived.memory.allocations import DRIVER, Pool, allocations
from warpline.derived.memory.labels import BYS, By, labels_of_allocations, stacks_of_allocations
from warpline.derived.memory.lifetimes import lifetimes
from warpline.derived.memory.passes import passes_of, step_starts
from warpline.derived.memory.places import device_bytes, pids_of, place_names
from warpline.derived.modules.places import Phase
from warpline.derived.steps.work import host_steps
from warpline.presentation import Block
from warpline.result import source_name, warnings_of
from warpline.trace import Run, Trace
from warpline.viewer.memory_report import MemoryContent, NamedSpan, PoolContent, SideContent

MOST_POOLS = 16
_UNKNOWN = "Unknown"  # the kind of blocks whose kind does not follow from the recording
_MOST = 0.5
_MOST_STEPS, _MOST_PHASES = 2_000, 8_000


def content(runs: Sequence[Run], by: By | None, tables: Sequence[Block]) -> MemoryContent:
    """Return what the page shows of one recording, or of two.

    Args:
        runs: The recording, or those before and after; both have allocations.
        by: What the layers are named after at first; None for what names most of the memory.
        tables: What the page has as text.
    """
    names = [source_name(run.trace.meta.paths) for run in runs]
    sides = [_side(run, name) for run, name in zip(runs, names, strict=True)]
    notes = [
        f"{name}: {warning}." if len(runs) > 1 else f"{warning[:1].upper()}{warning[1:]}."
        for run, name in zip(runs, names, strict=True)
        for warning in dict.fromkeys(warnings_of(run.trace))
    ]
    return MemoryContent(
        " and ".join(names), notes, sides, by or _telling(sides[-1].pools[0]), tables
    )


def _side(run: Run, name: str) -> SideContent:
    trace = run.trace
    pools = allocations(trace).pools
    # Allocations of the driver contain a framework's, of which more is known.
    is_telling = [pool.allocator != DRIVER and pool.device >= 0 for pool in pools]
    with progress.task("Following memory blocks", len(pools)) as advance:
        found = []
        for number in range(len(pools)):
            pool = _pool(run, number)
            found.append((not is_telling[number], -int(pool.lifetimes.allocated_bytes.max()), pool))
            advance(1)
    found.sort(key=lambda item: item[:2])
    return SideContent(name, [pool for *_, pool in found[:MOST_POOLS]])


def _pool(run: Run, number: int) -> PoolContent:
    trace, pool = run.trace, allocations(run.trace).pools[number]
    return PoolContent(
        _label(trace, pool),
        device_bytes(trace, pool),
        lifetimes(trace, number),
        {by: labels_of_allocations(trace, by) for by in BYS},
        stacks_of_allocations(trace),
        _steps(run, pool.process),
        _phases(trace, pool.process),
    )


def _telling(pool: PoolContent) -> By:
    """Return the first of kind, module, line and operator that names most of the bytes at the peak.

    If none does, it is the one that names more than the others.
    """
    memory = pool.lifetimes
    in_use = memory.in_use(memory.peak)
    event, size = memory.allocation[in_use], memory.bytes[in_use]
    shares: dict[By, float] = {}
    for by in BYS:
        labels = pool.labels[by]
        named = [code for code, text in enumerate(labels.texts) if text != _UNKNOWN]
        is_named = (event >= 0) & np.isin(np.append(labels.codes, -1)[event], named)
        shares[by] = float(size[is_named].sum() / max(size.sum(), 1))
    most: By = max(shares, key=lambda by: shares[by])
    return next((by for by, share in shares.items() if share > _MOST), most)


def _label(trace: Trace, pool: Pool) -> str:
    """Return the place and the process: ``GPU 0 NVIDIA H200, process 553``."""
    place = place_names(trace, [pool])[0]
    if pool.device >= 0:
        name = trace.columns("device", "name_id")["name_id"].to_list()[pool.device]
        place += "" if name is None else f" {trace.strings.text(name)}"
    pid = int(pids_of(trace, [pool])[0])
    parts = [place, f"process {pid}"] if pid else [place]
    if pool.allocator == DRIVER:
        parts.append("driver" if pool.memory == "Device" else f"driver, {pool.memory.lower()}")
    return ", ".join(parts)


def _steps(run: Run, process: int) -> list[NamedSpan]:
    """Return the steps of a process, by start; without names, they are numbered."""
    found = host_steps(run)
    if found is None:
        starts = step_starts(passes_of(run.trace, process)).tolist()[:_MOST_STEPS]
        ends = [*starts[1:], run.trace.span()[1]]
        spans = zip(starts, ends, strict=False)
        return [(f"step {number}", start, end) for number, (start, end) in enumerate(spans, 1)]
    own = np.flatnonzero(found.process == process)
    own = own[np.argsort(found.start_ns[own], kind="stable")][:_MOST_STEPS]
    names = [found.labels[label] for label in found.label[own].tolist()]
    if len(set(names)) < len(names):
        names = [f"step {number}" for number in range(1, len(names) + 1)]
    return [
        (name, start, end)
        for name, start, end in zip(
            names, found.start_ns[own].tolist(), found.end_ns[own].tolist(), strict=True
        )
    ]


def _phases(trace: Trace, process: int) -> list[NamedSpan]:
    """Return the phases of a process, by start."""
    found = passes_of(trace, process)
    names = [Phase(phase).label for phase in found.phase.tolist()]
    spans = zip(names, found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    return list(spans)[:_MOST_PHASES]
