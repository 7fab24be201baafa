"""Facts of findings per rank and GPU, in programs of two ranks with times computed by hand.

Each rank has a process, a thread that launches its work, and a GPU. Times are in microseconds, from
the start of a step.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence

from support.programs import ALL_REDUCE, Program

from warpline.analyses import findings
from warpline.result import RULES, Finding, OnDevice, Skipped
from warpline.trace import Run

for module in pkgutil.iter_modules(findings.__path__):
    importlib.import_module(f"{findings.__name__}.{module.name}")

SHOWN = 5  # steps of each rank with a next step, of six
SYNCHRONIZE, ALLOCATE, FREE = "cudaStreamSynchronize_v3020", "cudaMalloc_v3020", "cudaFree_v3020"


class Rank:
    """A rank in one of the steps of a program."""

    def __init__(self, program: Program, number: int, start_us: int) -> None:
        self.program, self.number, self.start_us = program, number, start_us

    def call(self, name: str, start_us: int, end_us: int) -> None:
        start, end = (1_000 * (self.start_us + time) for time in (start_us, end_us))
        self.program.call(name, start, end, 2 * self.number)

    def launch(
        self, start_us: int, work_us: tuple[int, int], name: str = "", stream: int = 0
    ) -> None:
        """Launch a kernel within a microsecond."""
        start, begun, ended = (1_000 * (self.start_us + time) for time in (start_us, *work_us))
        self.program.launch(
            start,
            start + 1_000,
            (begun, ended),
            name,
            thread=2 * self.number,
            stream=2 * self.number + stream,
        )


def ranks(step: Callable[[Rank], None], period_us: int = 100, count: int = 6) -> Program:
    """Return a program whose ranks both do the same in each step, apart from their number."""
    program = Program()
    for number in range(count):
        for rank in (0, 1):
            start_us = number * period_us
            end_us = start_us + period_us
            program.step(number, 1_000 * start_us, 1_000 * end_us, thread=2 * rank)
            step(Rank(program, rank, start_us))
    return program


def finding(rule: str, program: Program) -> Finding:
    judged = RULES.get(rule).judge(Run(program.trace()))
    assert not isinstance(judged, Skipped)
    (only,) = judged
    return only


def facts(item: Finding) -> list[tuple[int | None, int, int, int, int | None]]:
    return [(at.process, at.device, at.steps, at.ns, at.number) for at in item.on_devices]


def per_step(devices: Sequence[OnDevice]) -> float:
    """Return the time per step of the rank with the most, in microseconds."""
    return max(at.ns / at.steps for at in devices) / 1_000


def synchronizing(rank: Rank) -> None:
    rank.launch(0, (3, 20 + 14 * rank.number))
    rank.call(SYNCHRONIZE, 4, 20 + 14 * rank.number)
    rank.launch(60, (63, 90))
    if rank.number:
        rank.call(SYNCHRONIZE, 84, 90)


def test_synchronization_of_each_rank() -> None:
    item = finding("host-sync", ranks(synchronizing))
    # Rank 0 waits from 4 to 20, rank 1 from 4 to 34 and from 84 to 90.
    assert facts(item) == [(1, 0, SHOWN, 5 * 16_000, 5), (2, 1, SHOWN, 5 * 36_000, 10)]
    assert per_step(item.on_devices) == 36
    assert "blocking launches for 36.0 us." in item.claim


def test_calls_of_a_thread_with_two_devices_belong_to_none_of_them() -> None:
    program = ranks(synchronizing)
    kernels = [row for row in program.rows["kernel"] if row["process_id"] == 0]
    for row in kernels[1::2]:
        row["device_id"] = 1
    item = finding("host-sync", program)
    assert "blocking launches for 36.0 us." in item.claim
    assert item.on_devices == ()


def test_processes_that_share_a_device_stay_apart() -> None:
    program = ranks(synchronizing)
    for row in program.rows["kernel"]:
        row["device_id"] = 0
    item = finding("host-sync", program)
    assert facts(item) == [(1, 0, SHOWN, 5 * 16_000, 5), (2, 0, SHOWN, 5 * 36_000, 10)]


def allocating(rank: Rank) -> None:
    rank.call(ALLOCATE, 0, 8)
    rank.launch(10, (13, 90))
    if rank.number:
        rank.call(FREE, 20, 90)


def test_allocation_of_each_rank() -> None:
    item = finding("allocator", ranks(allocating))
    assert facts(item) == [(1, 0, SHOWN, 5 * 8_000, 5), (2, 1, SHOWN, 5 * 78_000, 10)]
    assert per_step(item.on_devices) == 78
    assert "The CPU spends 78.0 us per step" in item.claim


def capturing(rank: Rank) -> None:
    rank.call("cudaStreamBeginCapture_v10000", 10, 12)
    rank.call("cudaStreamEndCapture_v10000", 20, 22)
    rank.call("cudaGraphInstantiate_v12000", 23, 43)
    if rank.number:
        rank.call("cudaGraphExecDestroy_v10000", 45, 60)
    rank.launch(62, (64, 90))


def test_graphs_of_each_rank() -> None:
    item = finding("graph-recapture", ranks(capturing))
    # From the start of the capture at 10 to 43 and, with the destruction, to 60.
    assert facts(item) == [(1, 0, SHOWN, 5 * 33_000, 5), (2, 1, SHOWN, 5 * 50_000, 10)]
    assert per_step(item.on_devices) == 50
    assert "takes 50.0 us per step" in item.claim


def test_idle_time_of_each_rank() -> None:
    def step(rank: Rank) -> None:
        rank.launch(0, (1, 41 - 10 * rank.number))
        rank.launch(60, (61, 81))

    item = finding("launch-bound", ranks(step))
    # Rank 0 is idle from 41 to 61, rank 1 from 31 to 61, and both from 81 to 101.
    assert facts(item) == [(1, 0, SHOWN, 5 * 40_000, None), (2, 1, SHOWN, 5 * 50_000, None)]
    assert per_step(item.on_devices) == 50
    assert "GPU idle 50.0 us per step" in item.claim


def test_idle_time_of_equal_steps() -> None:
    def step(rank: Rank) -> None:
        for number in range(25):
            begun = 4 * number + 1
            rank.launch(4 * number, (begun, begun + 1 + rank.number), "kernel")

    item = finding("graph-opportunity", ranks(step))
    # Of each 4 us, a kernel takes 1 us on rank 0 and 2 us on rank 1.
    assert facts(item) == [(1, 0, SHOWN, 5 * 75_000, None), (2, 1, SHOWN, 5 * 50_000, None)]
    assert per_step(item.on_devices) == 75
    assert "GPU idle 75.0 us per step" in item.claim


def test_ranks_that_repeat_launches_of_their_own() -> None:
    def step(rank: Rank) -> None:
        for number in range(25 + 5 * rank.number):
            begun = 3 * number + 1
            rank.launch(3 * number, (begun, begun + 1 + rank.number), "kernel")
        for number in range(1 + 2 * rank.number):
            rank.call(SYNCHRONIZE, 91 + 2 * number, 92 + 2 * number)

    item = finding("graph-opportunity", ranks(step))
    # Rank 0 is the one with the most idle time, so all numbers are its own.
    assert per_step(item.on_devices) == item.on_devices[0].ns / SHOWN / 1_000
    assert item.title.startswith("Launch-bound: 25 launches per step")
    assert "the CPU launches 25 operations" in item.claim
    assert "remove 1 synchronizing or allocating call per step" in item.claim


def test_results_that_each_rank_reads() -> None:
    def step(rank: Rank) -> None:
        for number in range(25):
            rank.launch(3 * number, (3 * number + 1, 3 * number + 3 - rank.number), "kernel")
        for number in range(1 + rank.number):
            begun = 80 + 5 * number
            start, end, returns = (1_000 * (rank.start_us + begun + us) for us in (2, 3, 4))
            call = rank.program.call(
                "cudaMemcpyAsync_v3020", start - 2_000, returns, 2 * rank.number
            )
            rank.program._work(
                "memcpy", call, (start, end), 2 * rank.number, bytes=4, kind=2,
                src_memory=2, dst_memory=0,
            )  # fmt: skip

    item = finding("graph-opportunity", ranks(step))
    # Rank 1 is idle for longer, and reads two results.
    assert item.on_devices[1].ns > item.on_devices[0].ns
    assert "The CPU reads back 2 results per step" in item.claim


def loading(rank: Rank) -> None:
    """Compile for 2 ms or 4 ms, and load for 0.5 ms."""
    rank.launch(0, (1, 2))
    begun = 2_000 * (1 + rank.number)
    rank.call("cuModuleLoadData", begun, begun + 500)
    rank.launch(begun + 501, (begun + 502, begun + 700))


def test_code_that_each_rank_loads() -> None:
    item = finding("cold-start", ranks(loading, period_us=10_000))
    # The gap begins with the return of the launch, after 1 us.
    assert facts(item) == [(1, 0, SHOWN, 5 * 2_499_000, None), (2, 1, SHOWN, 5 * 4_499_000, None)]
    assert item.share == 0.4499
    assert "take 4.50 ms per step (45.0%): loading code 500 us, compiling 4.00 ms." in item.claim
    # Evidence is of that rank, changes are of both.
    assert [len(each.windows_ns) for each in item.evidence] == [5, 5]
    assert item.evidence[1].text == "5 CPU gaps before code is loaded: 20.0 ms"
    assert len(item.changes) == 4


def test_code_that_one_rank_loads() -> None:
    def step(rank: Rank) -> None:
        if rank.number:
            loading(rank)
        else:
            rank.launch(0, (1, 2))

    item = finding("cold-start", ranks(step, period_us=10_000))
    assert facts(item) == [(2, 1, SHOWN, 5 * 4_499_000, None)]
    # It does so in each of its own steps, though in half of all steps.
    assert "Affects only" not in item.claim
    assert len(item.changes) == 2


def test_steps_of_a_rank_that_load_code() -> None:
    def step(rank: Rank) -> None:
        if rank.number and rank.start_us in (10_000, 20_000):
            loading(rank)
        else:
            rank.launch(0, (1, 2))

    item = finding("cold-start", ranks(step, period_us=10_000))
    assert "Affects only 2 of 5 steps." in item.claim
    assert item.changes == ()


def test_streams_of_each_rank() -> None:
    def step(rank: Rank) -> None:
        ns = 20 * (1 + rank.number)
        rank.launch(0, (60, 60 + ns), "kernel")
        rank.launch(2, (61 + ns, 61 + 2 * ns), "kernel", stream=1)

    program = ranks(step, period_us=200)
    for row in program.rows["kernel"]:
        row.update(grid_x=16, grid_y=1, grid_z=1)
    item = finding("serialized-streams", program)
    # The second kernel could run with the first one.
    assert facts(item) == [(1, 0, SHOWN, 5 * 20_000, 5), (2, 1, SHOWN, 5 * 40_000, 5)]
    assert item.share == 0.2
    assert "1 kernel per step starts only when" in item.claim
    assert "Overlap would save up to 40.0 us (20.0%)." in item.claim


def test_long_gaps_of_each_rank_count_once() -> None:
    def step(rank: Rank) -> None:
        rank.launch(0, (1, 101))
        rank.launch(400 + 50 * rank.number, (401 + 50 * rank.number, 501))
        after = 1_800 - 200 * rank.number
        rank.launch(after, (after + 1, 1_901))

    judged = RULES.get("launch-bound").judge(Run(ranks(step, period_us=2_000).trace()))
    assert not isinstance(judged, Skipped)
    gaps, launches = judged
    # The third launch comes after a long time without calls, in which the GPUs are idle from 501
    # until 1,800 and until 1,600. Each GPU is idle for another microsecond until the kernel begins,
    # before the second kernel from 101, and from 1,901 until the next step's kernel, at 2,001.
    assert facts(gaps) == [(1, 0, SHOWN, 5 * 1_299_000, None), (2, 1, SHOWN, 5 * 1_099_000, None)]
    assert facts(launches) == [(1, 0, SHOWN, 5 * 401_000, None), (2, 1, SHOWN, 5 * 451_000, None)]
    assert per_step(gaps.on_devices) == 1_299
    assert per_step(launches.on_devices) == 451
    assert "GPU idle 1.30 ms per step" in gaps.claim
    assert "GPU idle 451 us per step" in launches.claim


def test_exposed_communication_of_each_rank() -> None:
    def step(rank: Rank) -> None:
        rank.launch(0, (1, 51 + 20 * rank.number))
        # Rank 0 waits from 52 to 72; both transfer until 92.
        rank.launch(2, (52 + 20 * rank.number, 92), ALL_REDUCE)
        if rank.number:
            rank.launch(4, (82, 92), stream=1)

    item = finding("exposed-communication", ranks(step))
    assert facts(item) == [(1, 0, SHOWN, 5 * 20_000, 5), (2, 1, SHOWN, 5 * 10_000, 5)]
    assert per_step(item.on_devices) == 20
    assert "leaves 20.0 us" in item.claim


def in_turn(late_us: Sequence[int]) -> Program:
    """Return steps in which one rank is late: rank 0 if the time is negative."""

    def step(rank: Rank) -> None:
        late = late_us[rank.start_us // 200]
        own = 100 + max(late if rank.number else -late, 0)
        rank.launch(0, (1, own))
        rank.launch(2, (own + 1, 101 + abs(late) + 20), ALL_REDUCE)

    return ranks(step, period_us=200, count=len(late_us))


def test_waits_for_a_late_rank() -> None:
    item = finding("straggler", in_turn([60, 60, 50, -30, 60, 60]))
    # In four of five collectives rank 0 waits for rank 1; its own lateness does not count.
    assert facts(item) == [(1, 0, SHOWN, 230_000, 4)]
    assert per_step(item.on_devices) == 46
    assert "The other rank waits 46.0 us per step" in item.claim


def test_waits_of_ranks_for_each_other() -> None:
    item = finding("straggler", in_turn([60, -50, 60, -50, -50, 60]))
    assert facts(item) == [(1, 0, SHOWN, 120_000, 5), (2, 1, SHOWN, 150_000, 5)]
    # On average over ranks: both wait, for each other.
    assert "no single straggler" in item.title
    assert "a rank waits 27.0 us per step" in item.claim
