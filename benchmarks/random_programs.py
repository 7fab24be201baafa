"""Random synthetic programs with and without a problem: are estimated savings correct?

Usage: PYTHONPATH=src:tests python benchmarks/random_programs.py [--programs 1000] [--first 0]
           [--ranks 1] [--verbose]

Each program has a few parts (kernels, CPU work, copies in a second stream, reads of results) with
one problem in one of them. It runs on the simulated machine of tests/support/machine.py, also with
random times. The program is analyzed with the problem, and the rule's estimated saving is compared
with the step time actually saved without it. An estimate fails if the actual saving is outside its
bounds. A problem is missed if it takes at least 8% of the step and no finding's upper bound is as
large: CPU work in a gap can also be hidden by removing a synchronization. Shares are relative to
the step with the problem. With `--ranks 2` or more, the programs are those of `random_ranks.py`.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from random_ranks import RankProgram
from random_recordings import Recording, broken_promises, predicted_steps, truth
from support import machine
from support.machine import ELEMENTWISE, GEMM, REDUCTION, Machine

import warpline

STEPS = 12
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda,"
    " std::array<char*, 2>, 4, TrivialOffsetCalculator<1>, TrivialOffsetCalculator<1>,"
    " at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>>"
)
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>"
FLOAT32 = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
FUSED = "void at::native::multi_tensor_apply_kernel<FusedAdam>"
TENSORS, UPDATES = 40, ("Mul", "Add", "Sqrt", "Div")
RULES: Mapping[str, str] = {
    "waits": "host-sync",
    "reads": "host-sync",
    "pageable batch": "pageable-copy",
    "pageable result": "pageable-copy",
    "memory": "allocator",
    "casts": "cast-copies",
    "layouts": "layout-copies",
    "float32": "no-tensor-cores",
    "updates": "unfused-optimizer",
    "loader": "input-bound",
    "pause": "launch-bound",
}
VARIED = ("LAUNCH_NS", "GAP_NS", "WAKE_NS", "CALL_NS")
USUAL = {name: getattr(machine, name) for name in VARIED}
MEASURABLE, TOLERANCE = 0.08, 0.004
OWN = 2  # the stream of copies that nothing waits for


class Part(NamedTuple):
    """A part of a step: its kind, number of kernels, and durations of kernels and CPU work."""

    kind: str
    kernels: int
    ns: int
    host_ns: int


class Program:
    """A program with a problem.

    Args:
        seed: Seed of the random numbers.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.seed = seed
        self.fault = [*RULES][seed % len(RULES)]
        self.rule = RULES[self.fault]
        kinds = ["kernels"] * 4 + ["small kernels", "two streams", "batch", "read", "host"]
        self._parts = [
            Part(
                draw.choice(kinds),
                draw.randint(5, 60),
                int(10 ** draw.uniform(3.6, 5.9)),
                int(10 ** draw.uniform(3, 5.3)),
            )
            for _ in range(draw.randint(2, 6))
        ]
        self._place = draw.randrange(len(self._parts))
        self._bytes, self._amount = int(10 ** draw.uniform(5, 7.5)), draw.random()
        self._jitter, self._variation = draw.choice([0, 0.05, 0.15]), draw.choice([0, 0, 0.3])
        self._waits_at_end = draw.random() < 0.6
        self._machine = {name: int(ns * draw.uniform(0.6, 1.5)) for name, ns in USUAL.items()}

    def run(self, recording: Recording, overhead_ns: int = 0, *, bad: bool) -> Machine:
        """Run it with or without its problem, with a profiler's overhead per call."""
        for name, ns in self._machine.items():
            setattr(machine, name, ns)
        on, draw = Machine(overhead_ns), random.Random(self.seed)
        recording.hold(on, -1)
        for number in range(STEPS):
            recording.hold(on, number)
            self._step(on, random.Random(draw.random()), bad=bad)
            on.end_step()
        return on

    def _step(self, on: Machine, draw: random.Random, *, bad: bool) -> None:
        scale = 1 + self._variation * draw.uniform(-1, 1)

        def about(ns: float) -> int:
            return int(ns * (1 + self._jitter * draw.uniform(-1, 1.5)))

        if self.fault == "pageable batch" and not bad:
            on.join(0, OWN)  # what was copied a step ahead
        if self.fault in {"loader", "pause"} and bad:
            on.work(about(self._bytes / 3))
        if self.fault == "loader":
            on.copy(1_000_000, pinned=True)
        for place, part in enumerate(self._parts):
            here = place == self._place
            self._work(on, part, max(1, int(part.kernels * scale)), about, bad=bad, here=here)
            if here:
                self._copy(on, bad=bad)
        if self.fault == "updates":
            self._update(on, about, bad=bad)
        if self._waits_at_end and (bad or RULES[self.fault] != "host-sync"):
            on.wait()

    def _work(
        self,
        on: Machine,
        part: Part,
        count: int,
        about: Callable[[float], int],
        *,
        bad: bool,
        here: bool,
    ) -> None:
        if part.kind == "two streams":
            for number in range(count):
                on.launch(part.ns, stream=number % 2)
            on.join(0, 1)
        elif part.kind == "batch":
            on.copy(2_000_000, pinned=True, stream=1)
            on.join(0, 1)
        elif part.kind == "read":
            if bad or RULES[self.fault] != "host-sync":
                on.read()
        elif part.kind == "host":
            for _ in range(5):
                on.work(about(part.host_ns))
                on.launch(part.ns // 10 + 2_000, ELEMENTWISE)
        else:
            ns = part.ns if part.kind == "kernels" else max(2_000, part.ns // 20)
            for number in range(count):
                on.work(about(1_000))
                self._kernel(on, number, ns, is_slow=bad and here)
                if here and bad:
                    self._disturb(on, number, ns, about)

    def _kernel(self, on: Machine, number: int, ns: int, *, is_slow: bool) -> None:
        if number % 3 == 0:
            on.launch(ns // 4 + 2_000, ELEMENTWISE if number % 2 else REDUCTION)
        elif self.fault == "float32" and is_slow:
            on.launch(ns * 6, FLOAT32)
        else:
            on.launch(ns, GEMM)

    def _disturb(self, on: Machine, number: int, ns: int, about: Callable[[float], int]) -> None:
        if self.fault == "waits" and number % max(1, int(self._amount * 10)) == 0:
            on.wait()
        elif self.fault == "reads" and number % max(1, int(self._amount * 20)) == 0:
            on.read()
        elif self.fault == "casts" and number % 2 == 0:
            on.launch(ns // 2, CAST)
        elif self.fault == "layouts" and number % 2 == 0:
            on.launch(ns // 2, LAYOUT)
        elif self.fault == "memory" and number % 7 == 0:
            on.allocate(about(80_000 + 200_000 * self._amount), frees=self._amount > 0.7)

    def _copy(self, on: Machine, *, bad: bool) -> None:
        if self.fault == "pageable batch":
            on.copy(self._bytes, pinned=not bad, stream=0 if bad else OWN)
        elif self.fault == "pageable result" and bad:
            on.copy(self._bytes, pinned=False, to_host=True)
            on.wait()
        elif self.fault == "pageable result":
            on.join(OWN, 0)
            on.copy(self._bytes, pinned=True, to_host=True, stream=OWN)

    def _update(self, on: Machine, about: Callable[[float], int], *, bad: bool) -> None:
        ns = 3_000 + 20_000 * self._amount
        if not bad:
            on.launch(int(TENSORS * len(UPDATES) * ns / 3), FUSED)  # reads and writes once
            return
        for _ in range(TENSORS):
            for update in UPDATES:
                on.launch(about(ns), ELEMENTWISE.replace("Add", update))


class Outcome(NamedTuple):
    """The result for a program, as shares of its step.

    Attributes:
        saved: The actual saving.
        said: The estimated saving of the problem's finding; None without a finding.
        low: Lower bound of the estimate.
        high: Upper bound of the estimate.
        most: Maximum upper bound of all findings.
        broken: What is predicted beyond what is possible.
    """

    saved: float
    said: float | None
    low: float
    high: float
    most: float
    broken: list[str]

    @property
    def is_outside(self) -> bool:
        """Whether the truth is not within the bounds."""
        return self.said is not None and not (
            self.low - TOLERANCE <= self.saved <= self.high + TOLERANCE
        )

    @property
    def is_missed(self) -> bool:
        """Whether no finding may save what the repair does."""
        return self.saved >= MEASURABLE and self.most < self.saved - TOLERANCE


def outcome(program: Program | RankProgram, recording: Recording) -> Outcome | None:
    """Return estimated and actual saving; None if the simulation is not possible."""
    trace = recording.trace(program.run(recording, recording.cost_ns, bad=True))
    found = warpline.analyze(trace)
    numbers = predicted_steps(trace)
    if found.replay is None or not len(numbers):
        return None
    true = truth(program, recording, numbers)
    priced = [item for item in found.findings if item.saving_ns is not None]
    own = next((item for item in priced if item.rule == program.rule), None)
    step = true.before_ns
    return Outcome(
        1 - true.after_ns / step,
        (own.saving_ns or 0) / step if own else None,
        (own.saving_low_ns or 0) / step if own else 0.0,
        (own.saving_high_ns or 0) / step if own else 0.0,
        max(((item.saving_high_ns or 0) / step for item in priced), default=0.0),
        broken_promises(trace, found, true, program.rule, numbers),
    )


def main() -> None:
    """Print the tables."""
    words = argparse.ArgumentParser()
    words.add_argument("--programs", type=int, default=1_000)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--ranks", type=int, default=1)
    words.add_argument("--chance", type=float, default=0.25, help="of each kind of recording")
    words.add_argument("--verbose", action="store_true", help="list failing programs")
    asked = words.parse_args()
    by_fault, by_kind = defaultdict[str, list[Outcome]](list), defaultdict[str, list[Outcome]](list)
    for seed in range(asked.first, asked.first + asked.programs):
        program = Program(seed) if asked.ranks == 1 else RankProgram(seed, asked.ranks)
        recording = Recording(seed, STEPS, asked.chance)
        if (result := outcome(program, recording)) is None:
            continue
        by_fault[program.fault].append(result)
        for kind in recording.kinds:
            by_kind[kind].append(result)
        if asked.verbose and (result.is_outside or result.is_missed or result.broken):
            shares = (f"{x:.3f}" for x in result[:-1] if x is not None)
            print(seed, program.fault, "+".join(recording.kinds), *shares, flush=True)
            print(*(f"  {line}\n" for line in result.broken), sep="", end="", flush=True)
    _print("fault", by_fault)
    print()
    _print("recording", by_kind)


def _print(title: str, found: Mapping[str, list[Outcome]]) -> None:
    """Print the number of failures, and the errors of the estimates, for each group of programs."""
    print(
        f"{title:16} programs  predicted  outside  missed  more than possible  median error  95th"
    )
    for name, results in found.items():
        errors = sorted(abs(one.said - one.saved) for one in results if one.said is not None)
        middle = statistics.median(errors) if errors else 0.0
        most = errors[int(len(errors) * 0.95)] if errors else 0.0
        outside, missed, broken = (
            sum(kind)
            for kind in zip(
                *((x.is_outside, x.is_missed, bool(x.broken)) for x in results), strict=True
            )
        )
        print(
            f"{name:16} {len(results):8} {len(errors):10} {outside:8} {missed:7} {broken:19}"
            f" {middle:13.1%} {most:5.1%}"
        )


if __name__ == "__main__":
    main()
