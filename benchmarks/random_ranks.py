"""Random synthetic programs of several ranks, with and without a problem of one of them.

`random_programs.py --ranks N` runs them. All ranks run the same parts (kernels, CPU work, copies)
and meet in all-reduces. Times vary from rank to rank. The problem makes one rank late, or sends
data in small pieces on all ranks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from random_recordings import Recording
from support import machine
from support.machine import ELEMENTWISE, GEMM, REDUCTION
from support.rank_machine import RankMachine, Ranks

STEPS = 12
FLOAT32 = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
RULES: Mapping[str, str] = {
    "more kernels": "straggler",
    "slower GPU": "straggler",
    "longer kernels": "straggler",
    "CPU in a range": "straggler",
    "CPU gap": "straggler",
    "small messages": "small-collectives",
}
VARIED = ("LAUNCH_NS", "GAP_NS", "WAKE_NS", "CALL_NS")
USUAL = {name: getattr(machine, name) for name in VARIED}


class Part(NamedTuple):
    """A part of a step: number of kernels, their duration, CPU work, and how it ends."""

    kernels: int
    ns: int
    host_ns: int
    meets: bool
    waits: bool


class RankProgram:
    """A program of several ranks with a problem.

    Args:
        seed: Seed of the random numbers.
        ranks: Number of ranks.
    """

    def __init__(self, seed: int, ranks: int) -> None:
        draw = random.Random(seed)
        self.seed, self.ranks = seed, ranks
        self.fault = [*RULES][seed % len(RULES)]
        self.rule = RULES[self.fault]
        self._parts = [
            Part(
                draw.randint(5, 40),
                int(10 ** draw.uniform(3.8, 5.9)),
                int(10 ** draw.uniform(3, 4.8)),
                draw.random() < 0.4,
                draw.random() < 0.2,
            )
            for _ in range(draw.randint(2, 5))
        ]
        self._place, self._late = draw.randrange(len(self._parts)), draw.randrange(ranks)
        self._amount, self._moving = draw.random(), int(10 ** draw.uniform(4.2, 6))
        self._jitter = draw.choice([0, 0.02, 0.05])
        self._has_ranges, self._waits_at_end = draw.random() < 0.5, draw.random() < 0.7
        self._machine = {name: int(ns * draw.uniform(0.6, 1.5)) for name, ns in USUAL.items()}

    def run(self, recording: Recording, overhead_ns: int = 0, *, bad: bool) -> Ranks:
        """Run it with or without its problem, with a profiler's overhead per call."""
        for name, ns in self._machine.items():
            setattr(machine, name, ns)
        on, draw = Ranks(self.ranks, overhead_ns), random.Random(self.seed)
        recording.hold(on, -1)
        for number in range(STEPS):
            recording.hold(on, number)
            self._step(on, draw.random(), bad=bad)
            on.end_step()
        return on

    def _step(self, on: Ranks, seed: float, *, bad: bool) -> None:
        draws = [random.Random(f"{seed} {rank.number}") for rank in on]
        for place, part in enumerate(self._parts):
            for rank, draw in zip(on, draws, strict=True):
                here = bad and place == self._place and rank.number == self._late
                begun = rank.begin_range()
                if here:
                    self._disturb(rank)
                self._work(rank, part, draw, here=here, bad=bad)
                if self._has_ranges or self.fault == "CPU in a range":
                    rank.end_range(f"part {'abcde'[place]}", begun)
            if part.meets or place == len(self._parts) - 1:
                self._meet(on, bad=bad and place == self._place)
            for rank in on:
                if part.waits:
                    rank.wait()
        for rank in on:
            rank.launch(50_000, ELEMENTWISE)
            if self._waits_at_end:
                rank.wait()

    def _work(
        self, rank: RankMachine, part: Part, draw: random.Random, *, here: bool, bad: bool
    ) -> None:
        is_slow = bad and rank.number == self._late
        slower = 1.05 + self._amount if self.fault == "slower GPU" and is_slow else 1.0
        longer = 1.1 + 2 * self._amount if self.fault == "longer kernels" and here else 1.0
        rank.work(part.host_ns)
        for number in range(part.kernels):
            about = slower * (1 + self._jitter * draw.uniform(-1, 1))
            if number % 3 == 0:
                name = ELEMENTWISE if number % 2 else REDUCTION
                rank.launch(int((part.ns // 4 + 2_000) * about), name)
            else:
                rank.launch(int(part.ns * about * longer), GEMM)

    def _disturb(self, rank: RankMachine) -> None:
        if self.fault == "more kernels":
            for _ in range(1 + int(self._amount * 20)):
                rank.launch(int(10 ** (4 + 2 * self._amount)), FLOAT32)
        elif self.fault in {"CPU in a range", "CPU gap"}:
            rank.work(int(10 ** (5.8 + 1.4 * self._amount)))

    def _meet(self, on: Ranks, *, bad: bool) -> None:
        if self.fault != "small messages" or not bad:
            on.all_reduce(self._moving)
            return
        on.all_reduce(self._moving)
        for _ in range(20 + int(80 * self._amount)):
            on.all_reduce(8_000)
