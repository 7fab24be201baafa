"""Simulated ranks that meet in collectives: a `Machine` for each, recorded in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.machine import CALL_NS, GPU, Machine
from support.programs import ALL_REDUCE

from warpline.trace import MemorySource, Trace, TraceMeta
from warpline.trace.merge import merge

ORIGIN_UTC_NS = 1_700_000_000_000_000_000
THREADS, STREAMS = 2, 3


class RankMachine(Machine):
    """One rank: a machine whose recording has a process and a GPU of its own.

    Args:
        number: The rank.
        overhead_ns: What a profiler adds to each call, after it has returned.
    """

    def __init__(self, number: int, overhead_ns: int = 0) -> None:
        super().__init__(overhead_ns)
        self.number = number

    def begin_range(self) -> int:
        """Return the start of a range, for `end_range`."""
        return self.now

    def end_range(self, name: str, begun: int) -> None:
        """Add a range from a time until now."""
        self.program.mark(name, begun, self.now)

    def arrives(self, stream: int) -> int:
        """Return when the stream would start an operation that is launched now."""
        return self._queued(stream, 0)[0]

    def collective(self, start: int, end: int, stream: int) -> None:
        """Launch a collective kernel that runs for a given time."""
        self._end[stream] = end
        self.program.launch(self.now, self.now + CALL_NS, (start, end), ALL_REDUCE, stream=stream)
        self.now += CALL_NS + self._after_call_ns

    def source(
        self, without: Sequence[str] = (), meta: Mapping[str, Any] | None = None
    ) -> MemorySource:
        """Return the rank's recording, without some tables, with facts as `TraceMeta` has them."""
        columns: dict[str, dict[str, Sequence[Any]]] = {
            name: {key: [row[key] for row in rows] for key in rows[0]}
            for name, rows in self.program.rows.items()
        }
        for name in ("kernel", "memcpy"):
            if name in columns:
                columns[name] |= {
                    key: [0] * len(columns[name]["start_ns"])
                    for key in ("device_id", "context_id", "process_id")
                }
        dimensions: dict[str, dict[str, Sequence[Any]]] = {
            "process": {"pid": [1000 + self.number], "rank": [self.number]},
            "thread": {"process_id": [0] * THREADS, "tid": [*range(1, THREADS + 1)]},
            "device": {
                "gpu_index": [self.number],
                "uuid": [f"GPU-{self.number}"],
                "name": [GPU],
            },
            "context": {"process_id": [0], "device_id": [0], "native_id": [1]},
            "stream": {
                "process_id": [0] * STREAMS,
                "context_id": [0] * STREAMS,
                "native_id": [7, 13, 17],
            },
        }
        path = Path(f"program.rank{self.number}.json")
        facts = TraceMeta((path,), "memory", origin_utc_ns=ORIGIN_UTC_NS, **(meta or {}))
        every = {**columns, **dimensions}
        return MemorySource({name: every[name] for name in every if name not in without}, facts)


class Ranks:
    """Ranks that run a program together; iterating yields them.

    Args:
        count: Number of ranks.
        overhead_ns: What a profiler adds to each call, after it has returned.
    """

    def __init__(self, count: int = 2, overhead_ns: int = 0) -> None:
        self._ranks = [RankMachine(number, overhead_ns) for number in range(count)]

    def __iter__(self) -> Iterator[RankMachine]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    def all_reduce(self, ns: int, stream: int = 0) -> None:
        """Meet: the kernel of each rank ends when the last has started and data has moved."""
        starts = [rank.arrives(stream) for rank in self._ranks]
        end = max(starts) + ns
        for rank, start in zip(self._ranks, starts, strict=True):
            rank.collective(start, end, stream)

    def end_step(self) -> None:
        """End a step of each rank."""
        for rank in self._ranks:
            rank.end_step()

    def trace(self, without: Sequence[str] = (), meta: Mapping[str, Any] | None = None) -> Trace:
        """Return the recordings of all ranks as one trace, with the arguments of `source`."""
        return Trace(merge([rank.source(without, meta) for rank in self._ranks]))
