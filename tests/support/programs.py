"""Small programs as lists of calls; each launch has the start and end of its work on the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.estimate import exactly
from warpline.replay import MEASURED, predict
from warpline.replay.prediction import Prediction
from warpline.result.changes import Change
from warpline.trace import MemorySource, Run, Trace
from warpline.trace.meta import TraceMeta

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SAME_CPU = MEASURED._replace(host_speed=exactly(1))
H2D, D2H = 1, 2
PAGEABLE, PINNED, DEVICE = 0, 1, 2


class Program:
    """A program of up to two processes, each with a GPU, two threads, and two streams."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.stream_kinds: Sequence[int] = ()  # of the four streams; empty if not recorded

    def call(self, name: str, start: int, end: int, thread: int = 0) -> int:
        """Make a call; its correlation is the number of calls before it."""
        number = len(self.rows.get("api_call", []))
        self.add(
            "api_call",
            name=name,
            start_ns=start,
            end_ns=end,
            thread_id=thread,
            process_id=thread // 2,
            correlation_id=number,
        )
        return number

    def launch(
        self,
        start: int,
        end: int,
        work: tuple[int, int],
        name: str = "",
        *,
        grid: Sequence[int] = (),
        block: Sequence[int] = (),
        **place: int,
    ) -> int:
        """Launch a kernel with given times, in a stream (0 to 3), from a thread (0 to 3).

        Grid and block have up to three dimensions; without any, none is recorded.
        """
        thread, stream = place.get("thread", 0), place.get("stream", 0)
        number = self.call("cudaLaunchKernel_v7000", start, end, thread)
        # Equal names would look like steps.
        told = name or f"k{number}"
        shape = {**_dimensions("grid", grid), **_dimensions("block", block)}
        self._work("kernel", number, work, stream, name=told, short_name=told, **shape)
        return number

    def launch_graph(self, start: int, end: int, *work: tuple[int, int]) -> int:
        """Launch a CUDA graph of kernels with given times, one after the other in stream 0."""
        number = self.call("cudaGraphLaunch_v10000", start, end)
        for place, times in enumerate(work):
            name = f"k{number}_{place}"
            self._work("kernel", number, times, 0, name=name, short_name=name)
        return number

    def copy(
        self, start: int, end: int, work: tuple[int, int], size: int, kind: int = H2D, **place: int
    ) -> int:
        """Copy between host and device; host memory is pageable by default."""
        number = self.call("cudaMemcpyAsync_v3020", start, end)
        host = place.get("host", PAGEABLE)
        memory = (host, DEVICE) if kind == H2D else (DEVICE, host)
        self._work(
            "memcpy", number, work, place.get("stream", 0), bytes=size, kind=kind,
            src_memory=memory[0], dst_memory=memory[1],
        )  # fmt: skip
        return number

    def wait_for_stream(self, start: int, end: int, stream: int = 0) -> int:
        number = self.call("cudaStreamSynchronize_v3020", start, end)
        self._event("host_wait", number, stream, kind=3, start_ns=start, end_ns=end)
        return number

    def record(self, start: int, end: int, event: int, sync: int, stream: int = 0) -> int:
        number = self.call("cudaEventRecord_v3020", start, end)
        self._event("event_record", number, stream, event_id=event, event_sync_id=sync)
        return number

    def wait_in_stream(self, start: int, end: int, event: int, sync: int, stream: int) -> int:
        number = self.call("cudaStreamWaitEvent_v3020", start, end)
        times = {"start_ns": start, "end_ns": end}
        self._event("stream_wait", number, stream, event_id=event, event_sync_id=sync, **times)
        return number

    def wait_for_event(self, start: int, end: int, event: int, sync: int) -> int:
        number = self.call("cudaEventSynchronize_v3020", start, end)
        times = {"start_ns": start, "end_ns": end, "kind": 1}
        self._event("host_wait", number, 0, event_id=event, event_sync_id=sync, **times)
        return number

    def operator(self, start: int, end: int, name: str, shapes: str | None = None) -> None:
        """Add a call of a framework's operator, with the shapes of its inputs as JSON."""
        self.add(
            "op", name=name, start_ns=start, end_ns=end, thread_id=0, process_id=0,
            input_shapes=shapes,
        )  # fmt: skip

    def step(self, number: int, start: int, end: int, thread: int = 0) -> None:
        """Add a step."""
        self.mark(f"step_{number}", start, end, thread)

    def mark(
        self, name: str, start: int, end: int, thread: int = 0, domain: str | None = None
    ) -> None:
        """Add a range."""
        self.add(
            "range",
            domain=domain,
            name=name,
            start_ns=start,
            end_ns=end,
            thread_id=thread,
            process_id=thread // 2,
            source_id=len(self.rows.get("range", [])),
        )

    def trace(
        self, gpu: str | None = None, *, meta: Mapping[str, Any] | None = None, **numbers: int
    ) -> Trace:
        """Return the program's recording, on GPUs with the given name and numbers.

        Args:
            gpu: The GPUs' name.
            meta: Facts about the recording, as `TraceMeta` has them.
            numbers: Columns of the table of devices.
        """
        tables: dict[str, dict[str, Sequence[Any]]] = {
            name: {key: [row[key] for row in rows] for key in rows[0]}
            for name, rows in self.rows.items()
        }
        return Trace(
            MemorySource(
                {
                    **tables,
                    "process": {"pid": [1, 2]},
                    "thread": {"process_id": [0, 0, 1, 1], "tid": [1, 2, 3, 4]},
                    "device": {
                        "gpu_index": [0, 1],
                        "name": [gpu, gpu],
                        **{column: [value, value] for column, value in numbers.items()},
                    },
                    "context": {"process_id": [0, 1], "device_id": [0, 1], "native_id": [1, 1]},
                    "stream": {
                        "process_id": [0, 0, 1, 1],
                        "context_id": [0, 0, 1, 1],
                        "native_id": [7, 13, 7, 13],
                        **({"kind": self.stream_kinds} if self.stream_kinds else {}),
                    },
                },
                TraceMeta((Path("memory"),), "memory", **(meta or {})),
            )
        )

    def _work(self, table: str, call: int, work: tuple[int, int], stream: int, **more: Any) -> None:
        place = stream // 2
        self.add(
            table,
            start_ns=work[0],
            end_ns=work[1],
            device_id=place,
            context_id=place,
            stream_id=stream,
            process_id=place,
            correlation_id=call,
            **more,
        )

    def _event(self, table: str, call: int, stream: int, **more: Any) -> None:
        self.add(
            table,
            device_id=0,
            context_id=0,
            stream_id=stream,
            process_id=0,
            correlation_id=call,
            **more,
        )

    def add(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)


def _dimensions(of: str, sizes: Sequence[int]) -> dict[str, int]:
    """Return the columns of a grid or block: 0 where it is unknown, 1 for missing dimensions."""
    known = (*sizes, *([1 if sizes else 0] * (3 - len(sizes))))
    return {f"{of}_{axis}": size for axis, size in zip("xyz", known, strict=True)}


def predicted(trace: Trace, *changes: Change) -> Prediction:
    """Return the prediction with unchanged CPU speed."""
    return predict(Run(trace), changes, calibration=SAME_CPU)


def after(trace: Trace, *changes: Change) -> int:
    return round(predicted(trace, *changes).step_ns.central)


def rows(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def synchronous() -> Program:
    """Two kernels of 50 us, with a synchronization before the second launch."""
    program = Program()
    program.launch(0, 5_000, (6_000, 56_000))
    program.wait_for_stream(5_500, 60_000)
    program.launch(62_000, 67_000, (68_500, 118_500))
    return program


def two_ranks() -> Program:
    """Rank 1 reaches each collective 30 us after rank 0; moving the data takes 20 us."""
    program = Program()
    for step in range(4):
        begin = step * 200_000
        for rank, late in ((0, 0), (1, 30_000)):
            thread, stream = 2 * rank, 2 * rank
            at = begin + rank * 100
            compute = (at + 6_500, at + 56_500 + late)
            program.launch(at, at + 5_000, compute, thread=thread, stream=stream)
            start = compute[1] + 1_000
            end = begin + 57_500 + 30_100 + 20_000
            program.launch(
                at + 8_000, at + 13_000, (start, end), ALL_REDUCE, thread=thread, stream=stream
            )
            program.step(step, begin, begin + 190_000, thread=thread)
            program.launch(
                at + 180_000,
                at + 185_000,
                (at + 186_500, at + 187_500),
                thread=thread,
                stream=stream,
            )
    return program


def late_rank(extra: int, transfer: int = 20_000, count: int = 4) -> Program:
    """Two ranks with 100 us of compute per step; rank 1 needs more. The CPU is far ahead."""
    program, done = Program(), 10_000
    for step in range(count):
        at = step * 30_000
        computed = [done + 1_000 + 100_000 + late for late in (0, extra)]
        end = max(computed) + 1_000 + transfer
        for rank in (0, 1):
            own = 2 * rank
            work = (done + 1_000, computed[rank])
            program.launch(at, at + 5_000, work, thread=own, stream=own)
            work = (computed[rank] + 1_000, end)
            program.launch(at + 8_000, at + 13_000, work, ALL_REDUCE, thread=own, stream=own)
            program.step(step, at, at + 29_000, thread=own)
        done = end
    return program
