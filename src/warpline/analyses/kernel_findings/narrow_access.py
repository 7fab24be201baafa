"""narrow-access: threads load or store one or two bytes at a time."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import WARP_THREADS, Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import L2
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for

NAME = "narrow-access"
TITLE = "Threads access one or two bytes at a time"

_REQUESTS, _SECTORS = (
    tuple(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{of}.sum" for of in ("ld", "st"))
    for what in ("requests", "sectors")
)
_BYTES = tuple(
    f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{of}.ratio" for of in ("ld", "st")
)
_NARROW, _WIDE = 4, 16  # bytes of a thread
_STALL = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_WAITS = 0.5  # of the latency: then more data in flight helps
_LSU = ("l1-requests", "lsu", "memory-instructions")
# Each thread computes addresses, compares them with bounds and exits: with more elements each,
# there are fewer threads.
_OF_THREADS = ("adu", "cbu", "uniform")
_OF_ELEMENTS = ("issue", "alu", "fma", "fma-heavy")  # partly
_LINE = 4  # sectors that L2 serves for one request


@kernel_rule(name=NAME, title=TITLE)
def narrow_access(launches: Launches) -> list[Proposal]:
    """Coalesced accesses to global memory of less than four bytes per thread.

    What it finds: Loads and stores of one or two bytes per thread: int8, fp8, half, bfloat16.
    Why it matters: Each instruction moves at most 64 bytes of the 512 that it could. More
        instructions are needed for the same data, and less data is in flight.
    How it is found: Bytes that are used, per request and thread. A repair moves 16 bytes per
        thread: fewer requests, fewer threads with bounds to check and, where warps wait for memory
        most of the time, as much more data in flight. At best the arithmetic is of vectors, too,
        and L2 serves a line of 128 bytes per request.
    What to do: Use vector types (`float4`, `half2`, `uint4`) and let each thread process several
        elements.
    Limits: Addresses must be aligned, and elements of a thread contiguous.
    Source: CUDA C++ Best Practices Guide. Pair `bytes` on an H100: 186 us, 57.0
        predicted, 45.7 measured.
    """
    requests, sectors = ([launches.metric(of) for of in names] for names in (_REQUESTS, _SECTORS))
    used = sum(launches.metric(name) * count for name, count in zip(_BYTES, sectors, strict=True))
    every = np.sum(requests, axis=0)
    width = np.divide(used, every * WARP_THREADS, out=np.zeros(len(launches)), where=every > 0)
    is_narrow = (width >= 0.5) & (width < _NARROW)  # less than a byte: few threads take part
    all_requests = launches.counted("l1-requests")
    of_threads = np.where(is_narrow, width / _WIDE, 1.0)
    kept = 1 - launches.ratio(every, all_requests) * (1 - of_threads)
    of_lines = np.maximum(of_threads, 1 / _LINE)
    stall, latency = launches.metric(_STALL), launches.metric(_LATENCY)
    hides = np.divide(
        _WIDE, width, out=np.ones(len(width)), where=is_narrow & (stall > _WAITS * latency)
    )

    def claim(row: int) -> str:
        return (
            f"Requests of global memory move {width[row]:.1f} bytes per thread; {_WIDE} are"
            " possible."
        )

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            is_narrow,
            Change.of(
                len(launches),
                {**dict.fromkeys(_LSU, kept), **dict.fromkeys(_OF_THREADS, of_threads)},
                kept_least={
                    **dict.fromkeys(_OF_ELEMENTS, of_threads),
                    **dict.fromkeys((*L2, "l1-to-l2"), of_lines),
                },
                hides=hides,
                hides_least=np.sqrt(hides),
            ),
            claim,
            "Use vector types (float4, half2, uint4), so that each thread moves 16 bytes at a"
            " time.",
            (*_REQUESTS, *_SECTORS, *_BYTES),
            shown_at=waiting_for("memory", "long_scoreboard", "lg_throttle"),
        )
    ]
