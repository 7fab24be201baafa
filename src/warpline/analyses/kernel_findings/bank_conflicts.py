"""bank-conflicts: threads of a warp access the same bank of shared memory at a time."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.units import format_ratio

NAME = "bank-conflicts"
TITLE = "Shared memory accesses have bank conflicts"

_ALL, _IDEAL = (f"memory_l1_wavefronts_shared{which}" for which in ("", "_ideal"))
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_OF_ATOMICS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


@kernel_rule(name=NAME, title=TITLE)
def bank_conflicts(launches: Launches) -> list[Proposal]:
    """Accesses to shared memory that take more wavefronts than their data needs.

    What it finds: Loads and stores of shared memory whose threads need different words of the same
        bank.
    Why it matters: Each such access is repeated for the remaining threads: a conflict of 32 threads
        takes 32 cycles in place of one.
    How it is found: Wavefronts of shared memory beyond the ideal (`memory_l1_wavefronts_shared`),
        or conflicts that the hardware counted. A repair removes them from the work of L1.
    What to do: Pad rows of tiles by one element (`tile[32][33]`), or swizzle the column index.
    Limits: A conflict that another resource hides costs nothing; that is why the predicted time
        counts, not the number of conflicts. Those of atomics are left to shared-atomics.
    Source: Nsight Compute's metrics. Pair `bank_conflict` on an H100: 85.9 us, 46.7 predicted, 43.5
        measured.
    """
    has_both = launches.has(_ALL, _IDEAL)
    excess = np.where(
        has_both, launches.metric(_ALL) - launches.metric(_IDEAL), launches.metric(_CONFLICTS)
    )
    excess = np.maximum(excess - launches.metric(_OF_ATOMICS), 0)
    shared = np.where(has_both, launches.metric(_ALL), launches.metric(_WAVEFRONTS))
    every = np.maximum(launches.counted("l1-data"), shared)
    kept = 1 - np.divide(excess, every, out=np.zeros(len(launches)), where=every > 0)

    def claim(row: int) -> str:
        share = excess[row] / shared[row]
        times = shared[row] / max(shared[row] - excess[row], 1)
        return (
            f"{format_ratio(share)} of the wavefronts of shared memory are conflicts: an access"
            f" takes {times:.1f} wavefronts for each that it needs."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            (excess > 0) & (shared > excess),
            Change.of(len(launches), {"l1-data": kept}),
            claim,
            "Pad the rows of shared tiles by one element ([32][33]), or swizzle the column index.",
            (_ALL, _IDEAL, _CONFLICTS, _WAVEFRONTS),
            shown_at=ShownAt(("excess_wavefronts_shared",), "excess wavefronts"),
        )
    ]
