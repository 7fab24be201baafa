"""Simulated jobs with parallel groups: tensor, pipeline, data, sharded data, experts.

Ranks are numbered as frameworks do it: tensor-parallel ones next to each other, then data-parallel
ones, then pipeline stages. Stages work by the schedule 1F1B: one microbatch forward, one backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from job_programs import Op, Recorded, run
from job_timeline import F64

from warpline.derived.time_parts import BUSY, TimePart
from warpline.fleet.collectives import QUARTERS, SHARES, CollectiveKind, Collectives
from warpline.fleet.summary import HostSteps, Identity, PeerCalls, RankSummary, RankWindows

MS = 1e6
LAYER_NS = 0.6 * MS  # forward; backward takes twice as long
_SENDS = ("Send", "Recv")


@dataclass(frozen=True)
class Layout:
    """A simulated job with parallel groups.

    Attributes:
        tensor, pipeline, data, experts: Ranks in each group of the kind.
        is_sharded: Whether parameters are sharded among the data-parallel ranks.
        microbatches: Per step.
        layers: Of each stage.
        steps: Number of steps.
        seed: Of all that varies.
        jitter: Relative standard deviation of each piece of work.
        spread: Standard deviation of the logarithm of experts' work.
        more_layers: Layers more of one stage: the stage and their number.
        slow_stage: A stage whose GPUs take longer, and how many times as long.
        slow_rank: A rank that takes longer, and how many times as long.
        hot: Ranks with more than their share of experts' work, and how many times as much.
        is_even: Whether all experts have as much work.
        scale: Of the work of layers.
        is_named: Whether the communicators are recorded.
        offset_ns, drift: Clocks are off by up to this, and too fast by up to that.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    experts: int = 1
    is_sharded: bool = False
    microbatches: int = 1
    layers: int = 4
    steps: int = 6
    seed: int = 0
    jitter: float = 0.03
    spread: float = 0.05
    more_layers: tuple[int, int] | None = None
    slow_stage: tuple[int, float] | None = None
    slow_rank: tuple[int, float] | None = None
    hot: tuple[tuple[int, ...], float] | None = None
    is_even: bool = False
    scale: float = 1.0
    is_named: bool = True
    offset_ns: float = 50e6
    drift: float = 1e-4

    def __len__(self) -> int:
        return self.tensor * self.pipeline * self.data

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return the stage of a rank, and its places in its data- and tensor-parallel group."""
        return (
            rank // (self.tensor * self.data),
            rank // self.tensor % self.data,
            rank % self.tensor,
        )

    def rank(self, stage: int, data: int, tensor: int) -> int:
        """Return the rank at a place."""
        return (stage * self.data + data) * self.tensor + tensor

    def layers_of(self, stage: int) -> int:
        """Return the number of layers of a stage."""
        more = self.more_layers
        return self.layers + (more[1] if more is not None and more[0] == stage else 0)


class _Program:
    """Makes the program of one rank."""

    def __init__(self, job: Layout, rank: int, loads: F64) -> None:
        self.job, self.rank, self.loads = job, rank, loads
        self.stage, self.replica, self.part = job.place(rank)
        self.rng = np.random.default_rng((job.seed, rank))
        self.speed = 1.0
        if job.slow_stage is not None and job.slow_stage[0] == self.stage:
            self.speed *= job.slow_stage[1]
        if job.slow_rank is not None and job.slow_rank[0] == rank:
            self.speed *= job.slow_rank[1]
        self.ops: list[Op] = []

    def made(self) -> list[Op]:
        job = self.job
        last = job.pipeline - 1
        for step in range(job.steps):
            self.ops.append(Op("step"))
            ahead = min(last - self.stage, job.microbatches)
            forward = backward = 0
            for _ in range(ahead):
                self._forward(step, forward)
                forward += 1
            while forward < job.microbatches:
                self._forward(step, forward)
                forward += 1
                self._backward(step, backward)
                backward += 1
            while backward < job.microbatches:
                self._backward(step, backward)
                backward += 1
            self._end()
        self.ops.append(Op("step"))
        return self.ops

    def _work(self, ns: float, *, is_gemm: bool = True) -> None:
        vary = float(np.exp(self.job.jitter * self.rng.standard_normal()))
        self.ops.append(Op("work", ns * self.speed * vary, is_gemm=is_gemm))

    def _meet(
        self, kind: str, operation: str, size: int, ns: float, *, beside: bool = False
    ) -> None:
        job = self.job
        number = {
            "tp": (self.stage, self.replica),
            "dp": (self.stage, self.part),
            "ep": (self.stage, self.part, self.replica // job.experts),
            "all": (),
        }[kind]
        key = kind + ".".join(map(str, number))
        self.ops.append(Op("meet-beside" if beside else "meet", ns, key, operation, size))

    def _peer(self, kind: str, stage: int, way: str) -> None:
        other = self.job.rank(stage, self.replica, self.part)
        pair = (self.rank, other) if kind == "send" else (other, self.rank)
        operation = _SENDS[kind == "recv"]
        self.ops.append(Op(kind, 60_000, f"{way}{pair[0]}-{pair[1]}", operation, 8 << 20))

    def _layer(self, ns: float, load: float, *, backward: bool) -> None:
        job = self.job
        if job.is_sharded:
            self._meet("dp", "AllGather", 4 << 20, 40_000)
        self._work(ns / 2)
        if job.tensor > 1:
            self._meet("tp", "AllReduce", 16 << 20, 50_000)
        if job.experts > 1:
            size = int(self.rng.integers(1 << 20, 1 << 22))
            self._meet("ep", "AllToAll", size, 50_000)
            self._work(ns / 2 * load)
            self._meet("ep", "AllToAll", size, 50_000)
        else:
            self._work(ns / 2)
        if job.tensor > 1:
            self._meet("tp", "AllReduce", 16 << 20, 50_000)
        if job.is_sharded and backward:
            self._meet("dp", "ReduceScatter", 4 << 20, 40_000)

    def _forward(self, step: int, batch: int) -> None:
        if self.stage > 0:
            self._peer("recv", self.stage - 1, "f")
        else:
            self._work(0.05 * LAYER_NS, is_gemm=False)
        for layer in range(self.job.layers_of(self.stage)):
            ns = LAYER_NS * self.job.scale
            self._layer(ns, self.loads[step, batch, layer, 0], backward=False)
        if self.stage < self.job.pipeline - 1:
            self._peer("send", self.stage + 1, "f")
        else:
            self._work(0.1 * LAYER_NS)

    def _backward(self, step: int, batch: int) -> None:
        if self.stage < self.job.pipeline - 1:
            self._peer("recv", self.stage + 1, "b")
        overlaps = batch == self.job.microbatches - 1 and self.job.data > 1
        for layer in range(self.job.layers_of(self.stage)):
            ns = 2 * LAYER_NS * self.job.scale
            self._layer(ns, self.loads[step, batch, layer, 1], backward=True)
            if overlaps and not self.job.is_sharded:
                self._meet("dp", "AllReduce", 25 << 20, 300_000, beside=True)
        if self.stage > 0:
            self._peer("send", self.stage - 1, "b")

    def _end(self) -> None:
        self.ops.append(Op("join"))
        if self.job.tensor * self.job.pipeline > 1 and len(self.job) > 1:
            self._meet("all", "AllReduce", 4, 20_000)
        self._work(0.1 * self.job.layers * LAYER_NS, is_gemm=False)


def simulate(job: Layout) -> list[Recorded]:
    """Return what is recorded of each rank, on a common clock."""
    rng = np.random.default_rng((job.seed, 1 << 20))
    layers = max(job.layers_of(stage) for stage in range(job.pipeline))
    shape = (len(job), job.steps, job.microbatches, layers, 2)
    loads = np.exp(job.spread * rng.standard_normal(shape))
    if job.hot is not None:
        loads[list(job.hot[0])] *= job.hot[1]
    groups = _members(job)
    for key, ranks in groups.items():
        if key.startswith("ep"):
            rows = loads[list(ranks)]
            # A hot rank takes work from the others of its group, or all have the same.
            even = rows.mean(axis=0, keepdims=True)
            loads[list(ranks)] = np.ones_like(rows) if job.is_even else rows / even
    programs = [_Program(job, rank, loads[rank]).made() for rank in range(len(job))]
    begin = rng.uniform(0, LAYER_NS / 4, len(job)).tolist()
    return run(programs, groups, begin)


def _members(job: Layout) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for rank in range(len(job)):
        stage, replica, part = job.place(rank)
        for key in (
            f"tp{stage}.{replica}",
            f"dp{stage}.{part}",
            f"ep{stage}.{part}.{replica // job.experts}",
            "all",
        ):
            found.setdefault(key, []).append(rank)
    return {key: tuple(ranks) for key, ranks in found.items()}


def step_ns(recorded: Sequence[Recorded]) -> float:
    """Return the mean step of a job."""
    return float(np.mean([np.diff(one.begin_ns).mean() for one in recorded]))


def summaries(job: Layout, recorded: Sequence[Recorded], hosts: int = 8) -> Iterator[RankSummary]:
    """Yield the summary of each rank.

    Args:
        job: The job.
        recorded: From `simulate`.
        hosts: Ranks per machine.
    """
    rng = np.random.default_rng((job.seed, 2 << 20))
    for rank, one in enumerate(recorded):
        offset = rng.uniform(-job.offset_ns, job.offset_ns)
        drift = rng.uniform(-job.drift, job.drift)
        yield _Summary(job, rank, one, offset, drift).made(f"n{rank // hosts:03d}")


class _Summary:
    """Makes the summary of one rank."""

    def __init__(
        self, job: Layout, rank: int, recorded: Recorded, offset: float, drift: float
    ) -> None:
        self.job, self.rank, self.recorded = job, rank, recorded
        self.offset, self.drift = offset, drift
        work = np.array([(start, end) for start, end, _ in recorded.work])
        self.work_start, self.work_end = work.T
        self.sums = np.concatenate(([0.0], np.cumsum(self.work_end - self.work_start)))

    def on_clock(self, time_ns: F64) -> np.ndarray:
        """Return times on the rank's clock."""
        return np.rint(time_ns + self.offset + self.drift * time_ns).astype(np.int64)

    def worked(self, time_ns: F64) -> F64:
        """Return how long the rank had worked at some times."""
        row = np.searchsorted(self.work_start, time_ns, side="right") - 1
        done = self.sums[np.maximum(row, 0)] + np.minimum(
            np.maximum(time_ns - self.work_start[np.maximum(row, 0)], 0.0),
            (self.work_end - self.work_start)[np.maximum(row, 0)],
        )
        return np.where(row >= 0, done, 0.0)

    def made(self, host: str) -> RankSummary:
        job, recorded = self.job, self.recorded
        begin = np.array(recorded.begin_ns)
        windows = self._windows(begin)
        kinds: dict[CollectiveKind, int] = {}
        both = [
            self._rows(
                [item for item in recorded.kernels if (item[0].operation in _SENDS) == is_sent],
                kinds,
            )
            for is_sent in (False, True)
        ]
        steps, none = np.arange(len(begin) - 1), np.zeros(len(begin) - 1, np.int64)
        length = windows.end_ns - windows.start_ns
        return RankSummary(
            identity=Identity(
                path=f"run.rank{self.rank}.warpline",
                format="warpline",
                rank=self.rank,
                pid=100 + self.rank,
                host=host,
                gpu_index=self.rank % 8,
                gpu_name="NVIDIA H200",
                origin_utc_ns=0,
                end_ns=int(windows.end_ns[-1]),
                events=1000,
                lost=0,
                step_source="range:step_*",
                sends=job.pipeline > 1,
                sm_clock_hz=None,
                clock_limits=None,
            ),
            steps=HostSteps(
                *(steps, none, length, none, none, none + 1, none),
                *(length, none - 1, none + 1),
            ),
            windows=windows,
            kinds=tuple(kinds),
            collectives=both[0],
            ranges=(),
            cpu_gaps_ns=None,
            os_calls=(),
            calls=(),
            exchanges=both[1],
            peers=self._peers() if job.is_named else (),
            gemm_ns=self._gemms(),
        )

    def _rows(
        self, kernels: Sequence[tuple[Op, float, float]], kinds: dict[CollectiveKind, int]
    ) -> Collectives:
        if not kernels:
            return Collectives(
                *(np.zeros(0, np.int64), np.zeros(0, np.int64)),
                np.zeros((0, QUARTERS), np.uint8),
                np.zeros(0, np.uint16),
                np.zeros(0, np.int64),
            )
        start, end = np.array([(start, end) for _, start, end in kernels]).T
        bounds = start[:, None] + (end - start)[:, None] * np.arange(QUARTERS + 1) / QUARTERS
        done = np.diff(self.worked(bounds), axis=1)
        hidden = SHARES * done / np.maximum(np.diff(bounds, axis=1), 1.0)
        streams = ("tp", "dp", "ep", "all")
        places = []
        for op, _, _ in kernels:
            stem = op.key.rstrip("0123456789.-")
            name = (
                f"0x{op.key}"
                if self.job.is_named
                else f"stream {streams.index(stem)}"
                if stem in streams
                else "stream 9"
            )
            if stem in {"f", "b"} and self.job.is_named:
                name = self._chain()
            kind = CollectiveKind(op.operation, name, "", self.job.is_named, op.bytes)
            places.append(kinds.setdefault(kind, len(kinds)))
        return Collectives(
            self.on_clock(start),
            self.on_clock(end),
            np.rint(np.clip(hidden, 0, SHARES)).astype(np.uint8),
            np.array(places, np.uint16),
            np.full(len(start), -1, np.int64),
        )

    def _chain(self) -> str:
        _, replica, part = self.job.place(self.rank)
        return f"0xp{replica}.{part}"

    def _peers(self) -> tuple[PeerCalls, ...]:
        stage, _, _ = self.job.place(self.rank)
        found = []
        for peer in (stage - 1, stage + 1):
            if 0 <= peer < self.job.pipeline:
                found += [
                    PeerCalls(
                        *(operation, self._chain(), "", stage, peer, 8 << 20),
                        float(self.job.microbatches),
                    )
                    for operation in _SENDS
                ]
        return tuple(found)

    def _gemms(self) -> np.ndarray:
        every = [
            (start, end) for op, start, end in self.recorded.kernels if op.operation == "AllToAll"
        ]
        if not every:
            return np.zeros(0, np.int64)
        start, end = np.array(every).T
        total = np.zeros(len(start))
        total[:-1] = self.worked(start[1:]) - self.worked(end[:-1])
        return np.rint(total).astype(np.int64)

    def _windows(self, begin: F64) -> RankWindows:
        start = self.on_clock(begin)
        count = len(begin) - 1
        parts = np.zeros((count, len(TimePart)), np.int64)
        work = np.zeros((count, len(BUSY)), np.int64)
        number = np.zeros((count, len(BUSY)), np.int64)
        stage, _, _ = self.job.place(self.rank)
        step = np.searchsorted(begin, self.work_start, side="right") - 1
        is_gemm = np.array([gemm for _, _, gemm in self.recorded.work])
        for part, own in ((TimePart.GEMM, is_gemm), (TimePart.ELEMENTWISE, ~is_gemm)):
            took = np.bincount(step[own], (self.work_end - self.work_start)[own], count)[:count]
            parts[:, part] = work[:, part] = np.rint(took).astype(np.int64)
        passes = 2 * self.job.microbatches * self.job.layers_of(stage)
        number[:, TimePart.GEMM] = 6 * passes
        number[:, TimePart.ELEMENTWISE] = 10 * passes
        parts[:, TimePart.COLLECTIVE] = np.diff(start) - parts.sum(axis=1)
        return RankWindows(np.arange(count), start[:-1], start[1:], parts, number, work)
