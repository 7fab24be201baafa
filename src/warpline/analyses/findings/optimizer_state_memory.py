"""optimizer-state-memory: much of the GPU memory is the state of the optimizer."""

from __future__ import annotations

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kind_sums import KindSums, kind_sums
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.pressure import severity_of_memory
from warpline.derived.memory.timelines import timeline_places
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ratio, plural

NAME = "optimizer-state-memory"
TITLE = "Much GPU memory is optimizer state"

_LEAST_RATIO = 0.25  # of the allocated memory at the peak
_WEIGHTS = (MemoryKind.PARAMETER, MemoryKind.OF_MODULE)
_BITS_RATIO = 0.25  # 8 instead of 32 bits


@rule(name=NAME, title=TITLE)
def optimizer_state_memory(run: Run) -> list[Finding]:
    """Optimizer state that takes at least 25% of the memory in use at the peak.

    What it finds: GPUs on which the optimizer keeps at least 25% of the allocated memory at the
        peak from step to step.
    Why it matters: Adam keeps two values per parameter, in FP32 8 bytes. Sharding them among ranks,
        or fewer bits, make room for a larger model or batch.
    How it is found: Kinds as in table memory_kinds.
    What to do: Shard the state (ZeRO, FSDP), or use 8-bit or factored states.
    Limits: Information unless memory is nearly full. Fewer bits may change the training. No time is
        predicted.
    Source: Rajbhandari et al., ZeRO, 2020; Dettmers et al., 8-bit Optimizers, 2022.
    """
    trace = run.trace
    found = []
    for number, timeline in enumerate(replayed(trace).timelines):
        peak = timeline.peak
        kinds = kind_sums(trace, number, (peak,))
        size = int(kinds.bytes[int(MemoryKind.OPTIMIZER), 0])
        if size and size >= _LEAST_RATIO * int(timeline.allocated_bytes[peak]):
            found.append(_finding(trace, number, kinds))
    return found


def _finding(trace: Trace, number: int, kinds: KindSums) -> Finding:
    place, timeline = timeline_places(trace)[number], replayed(trace).timelines[number]
    whole, time = int(timeline.allocated_bytes[timeline.peak]), int(timeline.time_ns[timeline.peak])
    size = int(kinds.bytes[int(MemoryKind.OPTIMIZER), 0])
    weights = sum(int(kinds.bytes[int(kind), 0]) for kind in _WEIGHTS)
    times = f", {size / weights:.1f} times the parameters" if weights else ""
    many = plural(int(kinds.blocks[int(MemoryKind.OPTIMIZER)]), "block")
    return Finding(
        NAME,
        severity_of_memory(trace, number),
        f"Optimizer state takes {format_ratio(size / whole)} of the GPU memory in use",
        f"Optimizer state takes {format_bytes(size)} of {format_bytes(whole)} at the peak of"
        f" {place}{times}. In 8 instead of 32 bits, it takes"
        f" {format_bytes(round(size * _BITS_RATIO))}.",
        (Evidence(f"{many} of optimizer state in use at the peak", windows_ns=((time, time),)),),
        "If memory is tight: shard the state with ZeroRedundancyOptimizer or FSDP, use an 8-bit"
        " optimizer (bitsandbytes, torchao) or Adafactor, or offload the state to the CPU.",
        "Profile again: `warpline stats -r memory_kinds` shows less optimizer state.",
        fix_in={
            "jax": "If memory is tight, shard the optimizer state among devices, or use"
            " optax.adafactor."
        },
    )
