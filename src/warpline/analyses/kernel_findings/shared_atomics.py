"""shared-atomics: atomic operations wait for each other at few words of shared memory."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import INSTRUCTIONS, Launches
from warpline.derived.kernel_limits.patterns import (
    ATOMIC_WAVEFRONTS,
    SHARED_ATOMICS,
    THREADS,
    contends_for_shared_memory,
)
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L1, PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for

NAME = "shared-atomics"
TITLE = "Atomics contend for few words of shared memory"

_STEERING = ("issue", "alu", "adu", "cbu", "uniform", "fma", "fma-heavy")


@kernel_rule(name=NAME, title=TITLE)
def shared_atomics(launches: Launches) -> list[Proposal]:
    """Atomic operations on shared memory that take most of the work of L1, or loop.

    What it finds: Atomics of two or more wavefronts each that keep L1 busy at least 30% of the
        time, or loops of compare and swap in which few threads take part.
    Why it matters: Threads of a warp that add to the same word take turns. Floating-point additions
        are compiled to a loop, which each of these threads runs once more.
    How it is found: Wavefronts of atomics in shared memory, and threads per instruction. After a
        repair there are no atomics in L1; what the kernel does otherwise is its floor.
    What to do: One copy of the sums per warp or per lane, added up at the end; sums in registers,
        or of the threads with the same key (`__match_any_sync`, `__reduce_add_sync`) before one of
        them adds. Integers are faster than floats.
    Limits: How fast the new code is depends on its data, which counters do not show.
    Source: Nsight Compute's metrics.
    """
    wavefronts, atomics = launches.metric(ATOMIC_WAVEFRONTS), launches.metric(SHARED_ATOMICS)
    none = np.zeros(len(launches))

    def claim(row: int) -> str:
        each = wavefronts[row] / atomics[row]
        return (
            f"An atomic instruction on shared memory takes {each:.1f} wavefronts, and an"
            f" instruction has {launches.metric(THREADS)[row]:.1f} threads, on average."
        )

    # Loops of compare and swap load, compute and branch; how much of it, counters do not show.
    kept = dict.fromkeys((*_STEERING, *L1), none)
    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            contends_for_shared_memory(launches),
            Change.of(len(launches), {**kept, "l1-to-l2": none + 1, "l2-to-l1": none + 1}),
            claim,
            "Keep a copy of the sums per warp or lane and add them up at the end, or add up"
            " threads with the same key first (__match_any_sync).",
            (
                SHARED_ATOMICS,
                ATOMIC_WAVEFRONTS,
                THREADS,
                INSTRUCTIONS,
                *RESOURCES[PLACE["l1-data"]].metrics,
            ),
            shown_at=waiting_for(
                "shared memory", "short_scoreboard", "mio_throttle", "branch_resolving"
            ),
        )
    ]
