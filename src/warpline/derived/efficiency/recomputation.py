"""What activation checkpointing would save in memory, and what it would cost in time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.module_times import module_busy_ns, step_slots
from warpline.derived.memory.allocations import place_of_rows
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kinds import MemoryKind, kinds_of_blocks
from warpline.derived.memory.labels import labels_of_allocations
from warpline.derived.modules.places import Phase
from warpline.derived.modules.tree import modules
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64
from warpline.trace import Run

# A numbered module, as of a ModuleList or Sequential: the outermost one in a path.
_REPEATED = lazy_pattern(r"(?P<family>.*?)\.(?P<number>[0-9]+)(?=\.|$)")
_LEAST_UNITS = 2


class Recomputation(NamedTuple):
    """Modules that repeat, with the activations that checkpoints around each would free.

    Attributes:
        family: Their name: ``GPT.blocks.*``.
        units: Number of modules that keep activations.
        bytes: Their activations at the peak.
        saved_bytes: The most that is freed: all but those of one module, which are there again
            while its backward pass runs.
        step_ns: GPU time of their forward passes in a step, which is repeated; None without GPU
            work.
    """

    family: str
    units: int
    bytes: int
    saved_bytes: int
    step_ns: float | None


@derived
def recomputation(run: Run, number: int) -> Recomputation | None:
    """Return the repeated modules with the most activations at the peak; None without any.

    Args:
        run: The trace and its steps.
        number: Place in `Replayed.timelines`.
    """
    trace = run.trace
    timeline, blocks = replayed(trace).timelines[number], replayed(trace).blocks
    alive = blocks.alive(number, timeline.peak)
    alive = alive[kinds_of_blocks(trace)[alive] == MemoryKind.ACTIVATION]
    names = labels_of_allocations(trace, "module")
    code = names.codes[place_of_rows(trace)[blocks.row[alive]]]
    families: dict[str, dict[str, int]] = {}
    for name, size in zip(code.tolist(), blocks.bytes[alive].tolist(), strict=True):
        found = _REPEATED.match(names.texts[name]) if name >= 0 else None
        if found:
            units = families.setdefault(found["family"], {})
            units[found["number"]] = units.get(found["number"], 0) + size
    repeated = {name: units for name, units in families.items() if len(units) >= _LEAST_UNITS}
    if not repeated:
        return None
    family = max(repeated, key=lambda name: sum(repeated[name].values()))
    sizes = repeated[family].values()
    whole = sum(sizes)
    return Recomputation(
        f"{family}.*", len(sizes), whole, whole - max(sizes), _forward_ns(run, family)
    )


def _forward_ns(run: Run, family: str) -> float | None:
    """Return the GPU time of the forward passes of repeated modules per step."""
    slots = step_slots(run)
    if not slots.n_slots:
        return None
    matches = (_REPEATED.match(name) for name in modules(run.trace).names)
    is_one = [found is not None and found["family"] == family for found in matches]
    group: I64 = np.where(np.array(is_one, np.bool_), 0, 1)
    busy = module_busy_ns(run, group.astype(np.int32), 2, Phase.FORWARD)[0]
    return float(busy.mean()) if busy.any() else None
