"""activation-memory: most GPU memory is activations, which could be recomputed."""

from __future__ import annotations

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.recomputation import Recomputation, recomputation
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kind_sums import kind_sums
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.pressure import severity_of_memory
from warpline.derived.memory.timelines import timeline_places
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run
from warpline.units import format_bytes, format_ns, format_ratio, plural

NAME = "activation-memory"
TITLE = "Most GPU memory is activations"

_LEAST_RATIO = 0.4  # of the allocated memory at the peak


@rule(name=NAME, title=TITLE)
def activation_memory(run: Run) -> list[Finding]:
    """Activations that take at least 40% of the memory in use at the peak.

    What it finds: GPUs on which at least 40% of the allocated memory at the peak was allocated in
        the forward pass for the backward pass.
    Why it matters: Activations grow with batch and sequence length. Recomputing them in the
        backward pass frees most of them for more time per step.
    How it is found: Kinds as in table memory_kinds. The saving is that of a checkpoint around each
        module of a repeated sequence, such as GPT.blocks.*: all their activations at the peak,
        except the largest share of one module, which is computed again while its backward pass
        runs. The price is the GPU time of their forward passes in a step (table modules).
    What to do: If memory limits the batch or the model, checkpoint the repeated modules.
    Limits: Information unless memory is nearly full. Inputs of checkpointed modules stay in memory,
        so that the saving is an upper bound. It needs modules (--pytorch=modules), and its price
        GPU work. Modules that are checkpointed already have few activations.
    Source: torch.utils.checkpoint; Chen et al., Training Deep Nets with Sublinear Memory Cost,
        2016.
    """
    trace = run.trace
    found = []
    for number, timeline in enumerate(replayed(trace).timelines):
        peak = timeline.peak
        kinds = kind_sums(trace, number, (peak,))
        size, whole = int(kinds.bytes[int(MemoryKind.ACTIVATION), 0]), timeline.allocated_bytes
        if size and size >= _LEAST_RATIO * int(whole[peak]):
            number_of_blocks = int(kinds.blocks[int(MemoryKind.ACTIVATION)])
            found.append(_finding(run, number, size, number_of_blocks))
    return found


def _finding(run: Run, number: int, size: int, blocks: int) -> Finding:
    trace = run.trace
    place, timeline = timeline_places(trace)[number], replayed(trace).timelines[number]
    whole, time = int(timeline.allocated_bytes[timeline.peak]), int(timeline.time_ns[timeline.peak])
    text = f"{plural(blocks, 'block')} of activations in use at the peak"
    best = recomputation(run, number)
    return Finding(
        NAME,
        severity_of_memory(trace, number),
        f"Activations take {format_ratio(size / whole)} of the GPU memory in use",
        f"Activations take {format_bytes(size)} of {format_bytes(whole)} at the peak of {place}."
        f"{_price(run, best)}",
        (Evidence(text, windows_ns=((time, time),)),),
        f"If memory limits the batch, wrap {best.family if best else 'repeated blocks'} in"
        " torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False), or use BF16"
        " activations (torch.autocast) and fused attention.",
        "Profile again: `warpline stats -r memory_kinds` shows fewer activations.",
        fix_in={"jax": "If memory limits the batch, wrap repeated blocks in jax.checkpoint."},
    )


def _price(run: Run, best: Recomputation | None) -> str:
    """Return what recomputation saves and costs, as sentences."""
    if best is None:
        return ""
    saved = (
        f" Recomputing {best.family} ({plural(best.units, 'module')}) in the backward pass frees up"
        f" to {format_bytes(best.saved_bytes)}"
    )
    if best.step_ns is None:
        return f"{saved}."
    scope = step_scope(run)
    share = format_ratio(scope.share(best.step_ns))
    return f"{saved} and takes {format_ns(best.step_ns)}{scope.each} ({share}) more GPU time."
