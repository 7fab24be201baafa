"""A synthetic run of several ranks with known arrival times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpline.trace import MemorySource, TraceMeta

KERNEL_NAMES = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
)
ORIGIN_UTC_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class MadeRun:
    """The parameters of the run.

    Attributes:
        ranks: Number of ranks; each has a file, a process, and a GPU.
        steps: Number of steps.
        per_step: Collectives per step.
        straggler: The late rank.
        late_ns: Its delay after the others, in 90% of the collectives.
        jitter_ns: Maximum random difference of arrivals.
        end_jitter_ns: Maximum random difference of a collective's ends.
        clock_ns: How far the clock of each rank is ahead of the true time.
        drift_ratio: How much faster the clock of the last rank runs.
        has_calls: Whether NCCL's calls are recorded, with a communicator.
        kernel_name: The collectives' kernel.
        seed: Seed of the random numbers.
    """

    ranks: int = 4
    steps: int = 20
    per_step: int = 101
    straggler: int = 2
    late_ns: int = 120_000
    jitter_ns: int = 20_000
    end_jitter_ns: int = 4_000
    clock_ns: tuple[int, ...] = (0, 0, 0, 0)
    drift_ratio: float = 0.0
    has_calls: bool = False
    kernel_name: str = KERNEL_NAMES[0]
    seed: int = 1

    @property
    def count(self) -> int:
        """Number of collectives."""
        return self.steps * self.per_step

    def arrivals(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the true arrival time of each rank, shape (ranks, collectives)."""
        random = np.random.default_rng(self.seed)
        gaps = random.integers(300_000, 900_000, self.count)
        gaps[:: self.per_step] += 5_000_000
        arrival = np.cumsum(gaps) + random.integers(0, self.jitter_ns, (self.ranks, self.count))
        arrival[self.straggler, random.random(self.count) < 0.9] += self.late_ns
        return arrival

    def ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the true end time of each rank's kernel, shape (ranks, collectives)."""
        random = np.random.default_rng(self.seed + 1)
        transfer = random.integers(20_000, 90_000, self.count)
        jitter = random.integers(0, self.end_jitter_ns, (self.ranks, self.count))
        ends: np.ndarray[Any, np.dtype[np.int64]] = self.arrivals().max(axis=0) + transfer + jitter
        return ends

    def source(self, rank: int, first: int = 0, last: int | None = None) -> MemorySource:
        """Return the recording of one rank, with some of the collectives."""
        chosen = slice(first, last)
        times = self.arrivals()[rank][chosen], self.ends()[rank][chosen]
        drift = self.drift_ratio if rank == self.ranks - 1 else 0.0
        start, end = (time + self.clock_ns[rank] + (time * drift).astype(int) for time in times)
        n = len(start)
        zeros = [0] * n
        tables: dict[str, dict[str, list[Any]]] = {
            "process": {"pid": [1000 + rank], "name": ["python"]},
            "thread": {"process_id": [0], "tid": [1000 + rank]},
            "device": {"gpu_index": [rank], "uuid": [f"GPU-{rank}"]},
            "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
            "kernel": {
                "start_ns": start.tolist(),
                "end_ns": end.tolist(),
                "process_id": zeros,
                "device_id": zeros,
                "stream_id": zeros,
                "correlation_id": list(range(n)),
                "name": [self.kernel_name] * n,
            },
        }
        if self.has_calls:
            tables |= _calls(rank, self.ranks, start)
        meta = TraceMeta((Path(f"trace_rank{rank}.json"),), "memory", origin_utc_ns=ORIGIN_UTC_NS)
        return MemorySource(tables, meta)

    def sources(self) -> list[MemorySource]:
        """Return the recordings of all ranks."""
        return [self.source(rank) for rank in range(self.ranks)]


def _calls(rank: int, ranks: int, start: Any) -> dict[str, dict[str, list[Any]]]:
    n = len(start)
    zeros = [0] * n
    called = {"process_id": zeros, "thread_id": zeros}
    return {
        "api_call": {
            **called,
            "start_ns": (start - 9_000).tolist(),
            "end_ns": (start - 5_000).tolist(),
            "correlation_id": list(range(n)),
            "name": ["cudaLaunchKernel"] * n,
        },
        "collective": {
            **called,
            "start_ns": (start - 10_000).tolist(),
            "end_ns": (start - 4_000).tolist(),
            "operation": ["ncclAllReduce"] * n,
            "bytes": [1 << 20] * n,
            "communicator": ["0x00000000deadbeef"] * n,
            "rank": [rank] * n,
            "rank_count": [ranks] * n,
            "sequence": list(range(n)),
        },
    }


def without_anchor(source: MemorySource) -> MemorySource:
    """Return the recording without its UTC anchor."""
    source.meta = replace(source.meta, origin_utc_ns=None)
    return source
