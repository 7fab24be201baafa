"""Programs whose steps can or cannot be captured as CUDA graphs, on the simulated machine.

Each is a function that runs one step: it takes the machine and the number of the step. Lines are
those of a file ``train.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from support.machine import GEMM, Machine

from warpline.schema.labels import CODE_KINDS, STREAM_KINDS
from warpline.trace import Trace

STEPS = 12
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
DROPOUT = "void at::native::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>"
CURAND = "void gen_sequenced<curandStateXORWOW, float, int, &curand_uniform<>, rng_config<>>"
PACKAGE = "/opt/venv/lib/python3.12/site-packages/torch"

_PYTHON = next(value for value, label in CODE_KINDS.items() if label == "Python")
_NULL = next(value for value, label in STREAM_KINDS.items() if label == "Null")
_OWN = next(value for value, label in STREAM_KINDS.items() if label == "Non-blocking")

Step = Callable[["Coded", int], None]


class Coded(Machine):
    """A machine whose calls have Python stacks, and which runs the same step again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.side_kind = _OWN
        self._frames: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[tuple[int | None, int], int] = {}
        self._line = 0
        self._inner = ""
        self._stack_of: list[int] = []

    @contextlib.contextmanager
    def at(self, line: int, inner: str = "") -> Iterator[None]:
        """Make calls from this line, through a function of PyTorch if one is named."""
        before, self._line, self._inner = (self._line, self._inner), line, inner
        yield
        self._note()
        self._line, self._inner = before

    def run(self, step: Step, steps: int = STEPS) -> Coded:
        for number in range(steps):
            with self.at(10):
                step(self, number)
            self.end_step()
        return self

    def recorded(self) -> Trace:
        """Return the recording. No stream is the legacy one, unless stream 1 is by `side_kind`."""
        for row, stack in zip(self.program.rows["api_call"], self._stack_of, strict=True):
            row["stack_id"] = stack
        for symbol, file, line in self._frames:
            self.program.add(
                "frame", symbol=symbol, module=file, line=line, kind=_PYTHON, is_unresolved=False
            )
        depths: dict[int, int] = {}
        for (parent, frame), number in self._stacks.items():
            depths[number] = 0 if parent is None else depths[parent] + 1
            self.program.add("stack", parent_id=parent, frame_id=frame, depth=depths[number])
        self.program.stream_kinds = [_OWN, self.side_kind, _OWN, _OWN]
        return self.trace()

    def _note(self) -> None:
        """Give the calls that have none the stack of the current line."""
        calls = len(self.program.rows.get("api_call", []))
        if calls == len(self._stack_of):
            return
        path = [("<module>", "/home/me/train.py", 99), ("step", "/home/me/train.py", self._line)]
        if self._inner:
            path.append((self._inner, f"{PACKAGE}/nn/utils.py", 5))
        stack: int | None = None
        for frame in path:
            number = self._frames.setdefault(frame, len(self._frames))
            stack = self._stacks.setdefault((stack, number), len(self._stacks))
        assert stack is not None
        self._stack_of += [stack] * (calls - len(self._stack_of))


def plain(machine: Coded, number: int) -> None:
    """Launch a few kernels: what every program does."""
    for at in range(6):
        with machine.at(20 + at):
            machine.launch(4_000, GEMM, grid=(64,), block=(128,))
            machine.launch(2_000, ADD, grid=(256,), block=(128,))


def dropout(machine: Coded, number: int) -> None:
    plain(machine, number)
    machine.launch(2_000, DROPOUT, grid=(256,), block=(128,))


def joined_streams(machine: Coded, number: int) -> None:
    machine.launch(4_000, GEMM)
    machine.join(1, 0)
    machine.launch(4_000, ADD, stream=1)
    machine.join(0, 1)
    plain(machine, number)


def static_inputs(machine: Coded, number: int) -> None:
    with machine.at(15):
        machine.copy(1 << 20, pinned=True)
    plain(machine, number)


def warming(machine: Coded, number: int) -> None:
    """Allocate, load code and launch other kernels in the first steps."""
    if number < 2:
        with machine.at(12):
            machine.allocate(20_000, frees=False)
            machine.call("cuModuleLoadData", 30_000)
            machine.launch(2_000, "init")
    plain(machine, number)


def item(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(41, "item"):
        machine.read()


def sometimes_item(machine: Coded, number: int) -> None:
    plain(machine, number)
    if number % 4 == 3:
        with machine.at(42):
            machine.read()


def synchronize(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(43, "synchronize"):
        machine.call("cudaDeviceSynchronize_v3020", 9_000)


def pageable_input(machine: Coded, number: int) -> None:
    with machine.at(31):
        machine.copy(1 << 20, pinned=False)
        machine.wait()
    plain(machine, number)


def pinned_blocking(machine: Coded, number: int) -> None:
    with machine.at(32):
        machine.copy(1 << 20, pinned=True)
        machine.wait()
    plain(machine, number)


def copy_then_wait(machine: Coded, number: int) -> None:
    with machine.at(33):
        machine.copy(1 << 20, pinned=True)
    with machine.at(34):
        machine.wait()
    plain(machine, number)


def empty_cache(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(51, "empty_cache"):
        machine.allocate(20_000, frees=True)
    with machine.at(52):
        machine.allocate(20_000, frees=False)


def growing_sequence(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(61):
        machine.launch(4_000, GEMM, grid=(64 + number,), block=(128,))


def branch(machine: Coded, number: int) -> None:
    plain(machine, number)
    if number % 3 == 0:
        with machine.at(62):
            machine.launch(3_000, "extra_kernel")


def unjoined(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(71):
        machine.join(1, 0)
        machine.launch(4_000, ADD, stream=1)


def query(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(81, "query"):
        machine.call("cudaEventQuery_v3020", 1_000)


def curand(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(91):
        machine.launch(2_000, CURAND)


def on_the_legacy_stream(machine: Coded, number: int) -> None:
    plain(machine, number)
    machine.side_kind = _NULL
    with machine.at(72):
        machine.join(1, 0)
        machine.launch(4_000, ADD, stream=1)
        machine.join(0, 1)


def synchronous_memset(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(44):
        machine.call("cudaMemset_v3020", 9_000)


def compiling(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(45):
        machine.call("cuModuleLoadData", 90_000)


def capturing(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(46):
        machine.call("cudaStreamBeginCapture_v10000", 5_000)
        machine.call("cudaStreamEndCapture_v10000", 5_000)
        machine.call("cudaGraphInstantiateWithFlags_v11040", 90_000)


def callback(machine: Coded, number: int) -> None:
    plain(machine, number)
    with machine.at(47):
        machine.call("cudaStreamAddCallback_v5000", 5_000)


def allocator_queries(machine: Coded, number: int) -> None:
    """Query events within an allocation, as PyTorch's allocator does; it does not in a capture."""
    with machine.at(16, "empty"):
        machine.call("cudaEventQuery_v3020", 1_000)
    plain(machine, number)


CLEAN: Mapping[str, Step] = {
    "plain": plain,
    "dropout": dropout,
    "joined streams": joined_streams,
    "static inputs": static_inputs,
    "warming": warming,
    "queries of the allocator": allocator_queries,
}
# The planted offenders: what is found, with its lines.
PLANTED: Mapping[str, tuple[Step, dict[str, str]]] = {
    "item": (item, {"cpu-read": "train.py:41 step"}),
    "sometimes item": (
        sometimes_item,
        {"cpu-read": "train.py:42 step"},
    ),
    "synchronize": (synchronize, {"synchronization": "train.py:43 step"}),
    "pageable input": (pageable_input, {"pageable-copy": "train.py:31 step"}),
    "pinned blocking": (pinned_blocking, {"blocking-copy": "train.py:32 step"}),
    "copy, then wait": (copy_then_wait, {"synchronization": "train.py:34 step"}),
    "empty cache": (
        empty_cache,
        {"free": "train.py:51 step", "allocation": "train.py:52 step"},
    ),
    "growing sequence": (growing_sequence, {"changing-shapes": "train.py:61 step"}),
    "branch": (branch, {"changing-work": "train.py:62 step"}),
    "unjoined": (unjoined, {"unjoined-stream": "train.py:71 step"}),
    "legacy stream": (on_the_legacy_stream, {"legacy-stream": "train.py:72 step"}),
    "synchronous memset": (synchronous_memset, {"synchronous-call": "train.py:44 step"}),
    "compiling": (compiling, {"module-load": "train.py:45 step"}),
    "capturing": (capturing, {"recapture": "train.py:46 step"}),
    "callback": (callback, {"unsupported-call": "train.py:47 step"}),
    "query": (query, {"query": "train.py:81 step"}),
    "cuRAND": (curand, {"random-numbers": "train.py:91 step"}),
}
