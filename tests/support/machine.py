"""A simulated CPU and GPU that run small programs by CUDA's synchronization rules.

A program is a function that makes calls on a `Machine`. Running it with and without a problem gives
two recordings, whose steps show the true saving of the fix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.programs import D2H, H2D, PAGEABLE, PINNED, Program

from warpline.trace import Trace

LAUNCH_NS = 6_000  # from the start of a call to the start of its work
GAP_NS = 1_200  # between two operations of a stream
WAKE_NS = 5_000  # from the end of the work to the return of a call that waits
CALL_NS = 5_000
QUEUE = 1_023  # launches that a stream takes before the next one has to wait
PAGEABLE_BYTES_PER_S = 8e9
PINNED_BYTES_PER_S = 50e9
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
REDUCTION = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor>>"
GPU = "NVIDIA H200"


class Machine:
    """One process with one GPU; calls advance the CPU's clock.

    Args:
        overhead_ns: What a profiler adds to each call, after it has returned.

    Attributes:
        now: CPU time.
        steps: Number of steps so far.
        program: The recording so far.
        begun_ns: When each step began on the CPU.
        done_ns: When each step was done: on the CPU, and all work launched so far.
        busy_ns: How long each step's kernels keep the busiest stream busy.
    """

    def __init__(self, overhead_ns: int = 0) -> None:
        self.now = 1_000_000
        self._after_call_ns = 1_000 + overhead_ns
        self.program = Program()
        self._end = [0, 0, 0]  # of each stream's last operation
        self._ends: list[list[int]] = [[], [], []]  # of all of its kernels
        self.steps = 0
        self.begun_ns, self.done_ns, self.busy_ns = list[int](), list[int](), list[int]()
        self._begun = self.now
        self._busy = [0, 0, 0]  # each stream in this step

    def work(self, ns: int) -> None:
        """Keep the CPU busy without CUDA API calls."""
        self.now += ns

    def launch(
        self,
        ns: int,
        name: str = GEMM,
        stream: int = 0,
        *,
        grid: Sequence[int] = (),
        block: Sequence[int] = (),
    ) -> None:
        """Launch a kernel asynchronously, once its stream has room for it."""
        start, self._end[stream] = self._queued(stream, ns)
        room = self._ends[stream][-QUEUE] if len(self._ends[stream]) >= QUEUE else 0
        self._ends[stream].append(self._end[stream])
        self._busy[stream] += ns
        returns = max(self.now + CALL_NS, room)
        self.program.launch(
            self.now, returns, (start, self._end[stream]), name, stream=stream,
            grid=grid, block=block,
        )  # fmt: skip
        self.now = returns + self._after_call_ns

    def copy(self, size: int, *, pinned: bool, to_host: bool = False, stream: int = 0) -> None:
        """Copy between host and device; a pageable copy returns when it is done."""
        rate = PINNED_BYTES_PER_S if pinned else PAGEABLE_BYTES_PER_S
        start, end = self._queued(stream, round(size / rate * 1e9) + 1_000)
        self._end[stream] = end
        returns = self.now + CALL_NS if pinned else max(self.now + CALL_NS, end + WAKE_NS)
        self.program.copy(
            self.now, returns, (start, end), size, D2H if to_host else H2D, stream=stream,
            host=PINNED if pinned else PAGEABLE,
        )  # fmt: skip
        self.now = returns + self._after_call_ns

    def wait(self, stream: int = 0) -> None:
        """Synchronize with a stream."""
        returns = max(self.now + CALL_NS, self._end[stream] + WAKE_NS)
        self.program.wait_for_stream(self.now, returns, stream)
        self.now = returns + self._after_call_ns

    def read(self) -> None:
        """Read a small result, as .item() does."""
        self.copy(4, pinned=False, to_host=True)
        self.wait()

    def allocate(self, ns: int, *, frees: bool) -> None:
        """Allocate GPU memory, or free it, which waits for the GPU."""
        name = "cudaFree_v3020" if frees else "cudaMalloc_v3020"
        begun = max(self.now, *self._end) if frees else self.now
        self.program.call(name, self.now, begun + ns)
        self.now = begun + ns + self._after_call_ns

    def call(self, name: str, ns: int) -> None:
        """Make a call that only takes time, such as one that loads code."""
        self.program.call(name, self.now, self.now + ns)
        self.now += ns + self._after_call_ns

    def start(self) -> None:
        """Start the first step now, after other calls."""
        self._begun = self.now

    def join(self, stream: int, other: int) -> None:
        """Make a stream wait for everything enqueued in another one."""
        number = len(self.program.rows.get("event_record", []))
        self.program.record(self.now, self.now + 500, event=number, sync=number, stream=other)
        self.now += self._after_call_ns
        self.program.wait_in_stream(
            self.now, self.now + 500, event=number, sync=number, stream=stream
        )
        self.now += self._after_call_ns
        self._end[stream] = max(self._end[stream], self._end[other])

    def end_step(self) -> None:
        """End a step, which started at the end of the previous one."""
        self.program.step(self.steps, self._begun, self.now)
        self.steps += 1
        self.begun_ns.append(self._begun)
        self.done_ns.append(max(self.now, *self._end))
        self.busy_ns.append(max(self._busy))
        self._busy = [0, 0, 0]
        self.now += 1_000
        self._begun = self.now

    def trace(
        self, gpu: str = GPU, *, meta: Mapping[str, Any] | None = None, **numbers: int
    ) -> Trace:
        """Return the recording, with the arguments of `Program.trace`."""
        return self.program.trace(gpu, meta=meta, **numbers)

    def _queued(self, stream: int, ns: int) -> tuple[int, int]:
        start = max(self.now + LAUNCH_NS, self._end[stream] + GAP_NS)
        return start, start + ns
