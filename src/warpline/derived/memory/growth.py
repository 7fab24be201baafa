"""Memory that grows from step to step, by what allocated it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import place_of_rows
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kinds import MemoryKind, kinds_of_blocks
from warpline.derived.memory.labels import labels_of_allocations
from warpline.derived.memory.moments import sums_at
from warpline.derived.memory.steps import events_at, memory_steps
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.trace import Run

LEAST_STEPS = 4

_WARM_UP = 1  # steps: caches and workspaces are allocated
_GROWS_RATIO = 0.75  # of the steps; it shrinks in none


class Leak(NamedTuple):
    """Blocks from one place in the program of which more are in use after each step.

    Attributes:
        timeline: Place in `Replayed.timelines`.
        step_bytes: Bytes per step by which they grow.
        step_blocks: The same, in blocks.
        grown_bytes: Bytes by which they grew from the end of the second step to the last one.
        grown_blocks: The same, in blocks.
        steps: Number of steps in which they grow.
        kind: Kind of most of the bytes.
        blocks: Shape (n,), int64, blocks in use after the last step that were not before.
        line: Line of the program; None if not known, as `module` and `operator`.
        module: The module.
        operator: The operator.
    """

    timeline: int
    step_bytes: float
    step_blocks: float
    grown_bytes: int
    grown_blocks: int
    steps: int
    kind: MemoryKind
    blocks: I64
    line: str | None
    module: str | None
    operator: str | None


class _Places(NamedTuple):
    """The place in the program of each block, and the names of places."""

    code: I64
    names: tuple[tuple[str | None, str | None, str | None], ...]


@derived
def leaks(run: Run) -> tuple[Leak, ...]:
    """Return what grows from step to step, the fastest first; nothing without four steps.

    Bytes in use at the end of each step but the first are compared, by line, module and operator
    of the allocation or, where none of these is known, by size.
    """
    found: list[Leak] = []
    for number in range(len(replayed(run.trace).timelines)):
        found += _of_timeline(run, number)
    return tuple(sorted(found, key=lambda leak: -leak.step_bytes))


def _of_timeline(run: Run, number: int) -> list[Leak]:
    timeline, blocks = replayed(run.trace).timelines[number], replayed(run.trace).blocks
    run_steps = memory_steps(run, number)
    if len(run_steps) < LEAST_STEPS:
        return []
    ends = events_at(timeline, run_steps.end_ns[_WARM_UP:])
    places = _places(run)
    own = blocks.of(number)
    n_places = len(places.names)
    held = sums_at(blocks, own, places.code[own], n_places, ends)
    ones = np.ones(len(own), np.int64)
    in_number = sums_at(blocks, own, places.code[own], n_places, ends, values=ones)
    change = np.diff(held, axis=1)
    grows = (change >= 0).all(axis=1) & ((change > 0).mean(axis=1) >= _GROWS_RATIO)
    new = own[(blocks.first[own] > ends[0]) & (blocks.first[own] <= ends[-1])]
    new = new[blocks.last[new] > ends[-1]]
    kinds, n_steps = kinds_of_blocks(run.trace), change.shape[1]
    result = []
    for place in np.flatnonzero(grows).tolist():
        members = new[places.code[new] == place]
        of_kind = np.bincount(kinds[members], blocks.bytes[members])
        grown = int(held[place, -1] - held[place, 0])
        count = int(in_number[place, -1] - in_number[place, 0])
        result.append(
            Leak(
                number,
                grown / n_steps,
                count / n_steps,
                grown,
                count,
                int(np.count_nonzero(change[place])),
                MemoryKind.at(int(of_kind.argmax())),
                members,
                *places.names[place],
            )
        )
    return result


@derived
def _places(run: Run) -> _Places:
    trace = run.trace
    blocks = replayed(trace).blocks
    at = place_of_rows(trace)[blocks.row]
    labels = [labels_of_allocations(trace, by) for by in ("line", "module", "operator")]
    codes = [label.codes[at] for label in labels]
    is_known = np.any([code >= 0 for code in codes], axis=0)
    groups = factorize_rows(*codes, np.where(is_known, 0, blocks.bytes))
    names = [
        tuple(
            label.texts[code[row]] if code[row] >= 0 else None
            for label, code in zip(labels, codes, strict=True)
        )
        for row in groups.first.tolist()
    ]
    return _Places(groups.codes.astype(np.int64), tuple((a, b, c) for a, b, c in names))
