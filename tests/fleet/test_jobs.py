"""The answer about a job: who delays the others, why, and what is not a straggler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.fleets import Meeting, simulate, summary

import warpline
from warpline import api
from warpline.analyses.findings.straggler import straggler
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.time_parts import BUSY, TimePart
from warpline.fleet.summary import LastCall, RankSummary
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet
from warpline.trace import Run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "fleet"))

from job_recordings import template, write
from job_summaries import base_of, paths, summaries
from job_timeline import Fault, Job, Timeline, timeline

SHARED = Path(__file__).parents[3] / "shared" / "data"
SKEWED = Job(8, 6, offset_ns=50e6, drift=1e-4)
MS = 1_000_000


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, RankSummary]:
    from support.captures import unpack

    found = template(unpack("ddp_serial.bad.rank1", tmp_path_factory.mktemp("fleet")))
    return found, base_of(found)


def answer(base: tuple[object, RankSummary], job: Job) -> tuple[Fleet, Timeline]:
    times = timeline(base[0].step, job)  # type: ignore[attr-defined]
    return verdict_of("job", list(summaries(base[1], times, 4))), times


def test_real_ranks_have_the_verdict_of_analyze(capture: Callable[[str], Path]) -> None:
    files = [capture(f"ddp_serial.bad.rank{rank}") for rank in (0, 1)]
    fleet = api.fleet(files, workers=1)
    both = Run(warpline.open(*files))
    (late,) = straggler(both)  # type: ignore[misc]
    assert fleet.findings[0].title == late.title
    assert [(item.rank, item.role) for item in fleet.stragglers] == [(1, "behind")]
    waited = max(fact.ns / fact.steps for fact in late.on_devices)
    assert fleet.ranks[0].wait_ns == pytest.approx(waited, rel=0.01)
    parts = step_partition(both)
    assert fleet.total_ns == parts.ns.sum()
    busy = [int(part) for part in BUSY]
    for rank, own in zip(fleet.ranks, parts.ranks, strict=True):
        assert rank.busy_ns * rank.steps == pytest.approx(float(parts.total(own)[busy].sum()))
    assert {part.category: part.ns for part in fleet.breakdown if part.kind == "busy"} == {
        part.label: int(parts.ns[:, part].sum()) for part in BUSY if parts.ns[:, part].any()
    }


@pytest.mark.skipif(not SHARED.exists(), reason="the shared recordings are not here")
@pytest.mark.parametrize("name", ["nsys/ddp_serial.{}.sqlite", "kineto/ddp_serial.{}.json.gz"])
@pytest.mark.parametrize("kind", ["bad", "fixed"])
def test_all_shared_pairs_have_the_verdict_of_analyze(name: str, kind: str) -> None:
    files = [SHARED / name.format(f"{kind}.rank{rank}") for rank in (0, 1)]
    both = Run(warpline.open(*files))
    (late,) = straggler(both)  # type: ignore[misc]
    fleet = api.fleet(files, workers=1)
    assert fleet.total_ns == step_partition(both).ns.sum()
    assert fleet.findings[0].title.split(":")[0] == late.title.split(":")[0]
    waits = rank_waits(both)
    for rank, item in enumerate(fleet.ranks):
        assert item.wait_ns * item.steps == pytest.approx(waits.wait_ns[rank], rel=0.01, abs=2_000)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(Fault("gap", (5,), 4 * MS), "slow-host"), (Fault("slow", (5,), 1.15), "slow-gpu")],
)
def test_the_slow_rank_is_found_though_clocks_are_off(
    base: tuple[object, RankSummary], fault: Fault, cause: str
) -> None:
    job = replace(SKEWED, faults=(fault,))
    found, times = answer(base, job)
    assert [(item.rank, item.cause) for item in found.stragglers] == [(5, cause)]
    assert found.stragglers[0].pattern == "persistent"
    assert "Rank 5 on n001 is the straggler" in found.verdict
    _, healthy = answer(base, SKEWED)
    truth = float(np.diff(healthy.begin_ns, axis=1).mean())
    step = found.findings[0].step_ns
    assert step is not None
    assert step.low <= truth <= step.high
    for rank, item in enumerate(found.ranks):
        skew = times.offset_ns[rank] - times.offset_ns[0]
        middle = times.end_ns[0].mean()
        skew += (times.drift[rank] - times.drift[0]) * middle
        assert item.clock_offset_ns == pytest.approx(skew, abs=3_000)
        drift = (1 + times.drift[rank]) / (1 + times.drift[0]) - 1
        assert item.clock_drift == pytest.approx(drift, abs=2e-6)


def test_healthy_jobs_have_no_straggler(base: tuple[object, RankSummary]) -> None:
    for seed in range(4):
        found, _ = answer(base, replace(SKEWED, seed=seed))
        assert found.stragglers == ()
        assert "straggler:" not in found.verdict


def test_a_rank_that_is_late_in_too_few_steps_to_tell(base: tuple[object, RankSummary]) -> None:
    """One of eight ranks may be late in all of two steps by chance; it is said that it was."""
    fault = Fault("gap", (2,), 8 * MS)
    found, _ = answer(base, replace(SKEWED, steps=3, faults=(fault,)))
    (finding,) = found.findings
    assert not found.stragglers
    assert (finding.rule, finding.ranks) == ("ranks-in-turn", ("rank 2",))
    assert "mostly for rank 2, which may be chance in 3 steps" in finding.title
    assert "most of them in 3 of 3 steps" in finding.claim


def test_a_rank_that_is_late_in_few_steps(base: tuple[object, RankSummary]) -> None:
    fault = Fault("gap", (2,), 60 * MS, steps=(3, 6, 8))
    found, _ = answer(base, replace(SKEWED, steps=12, faults=(fault,)))
    assert [(item.rank, item.pattern) for item in found.stragglers] == [(2, "some-steps")]
    assert "most waits in 3 of" in found.findings[0].claim


def test_ranks_of_one_machine(base: tuple[object, RankSummary]) -> None:
    fault = Fault("slow", (4, 5, 6, 7), 1.15)
    found, _ = answer(base, replace(SKEWED, ranks=16, steps=12, faults=(fault,)))
    assert {item.rank for item in found.stragglers} == {4, 5, 6, 7}
    assert found.findings[0].rule == "slow-host-of-ranks"
    assert "n001" in found.findings[0].title


def test_generated_recordings_are_as_planned(
    base: tuple[object, RankSummary], tmp_path: Path
) -> None:
    """The generator itself: its recording has the planted gap, as `analyze` shows it."""
    job = Job(2, 5, seed=2, jitter=0.0, faults=(Fault("gap", (1,), 3 * MS),))
    times = timeline(base[0].step, job)  # type: ignore[attr-defined]
    files = paths(tmp_path, 2)
    for rank, path in enumerate(files):
        write(base[0], times, rank, path, "n0")  # type: ignore[arg-type]
    shown = [warpline.analyze(path).breakdown[0] for path in files]
    idle = [
        sum(part.ns for part in item.parts if part.category == "launch-bound") / item.count
        for item in shown
    ]
    assert idle[1] - idle[0] == pytest.approx(3 * MS, rel=0.01)
    fleet = api.fleet([str(tmp_path / "*.warpline")], workers=1)
    assert [item.rank for item in fleet.stragglers] == [1]
    planned = verdict_of("job", list(summaries(base[1], times)))
    assert planned.stragglers[0].rank == 1


# Ranks in several groups: pairs (0, 1), (2, 3)... meet in each layer, and the even and the odd ones
# at the end of each step.
LAYERS = 4


@cache
def grid(late: int | None, ranks: int = 8, steps: int = 8) -> list[RankSummary]:
    rng = np.random.default_rng(11)
    planned = []
    for _ in range(steps):
        meetings = []
        for _layer in range(LAYERS):
            for first in range(0, ranks, 2):
                pair = (first, first + 1)
                work = [int(MS * rng.normal(1, 0.01)) + MS // 2 * (r == late) for r in pair]
                meetings.append(Meeting(f"tp{first}", pair, tuple(work)))
        for parity in (0, 1):
            group = tuple(range(parity, ranks, 2))
            work = [int(100_000 * rng.normal(1, 0.01)) for _ in group]
            meetings.append(Meeting(f"dp{parity}", group, tuple(work)))
        planned.append(meetings)
    return [
        summary(rank, recorded, host=f"n{rank // 2}", clock_ns=rank * 7 * MS)
        for rank, recorded in enumerate(simulate(ranks, planned))
    ]


def test_a_straggler_in_several_groups_is_not_its_neighbor() -> None:
    found = verdict_of("job", grid(5))
    assert [item.rank for item in found.stragglers] == [5]
    assert all(rank.clock_error_ns is not None for rank in found.ranks)
    offsets = [rank.clock_offset_ns or 0.0 for rank in found.ranks]
    assert offsets == pytest.approx([rank * 7 * MS for rank in range(8)], abs=5_000)
    assert verdict_of("job", grid(None)).stragglers == ()


def test_a_slow_communicator_is_the_network() -> None:
    planned = [
        [
            Meeting(
                f"dp{group}", (group * 2, group * 2 + 1), (MS, MS), 3 * MS if group == 2 else MS
            )
            for group in range(4)
        ]
        for _ in range(8)
    ]
    every = [summary(rank, one) for rank, one in enumerate(simulate(8, planned))]
    (found,) = (f for f in verdict_of("job", every).findings if f.rule == "slow-communicator")
    assert found.ranks == ("rank 4", "rank 5")
    assert "3.0 times" in found.title


def test_bus_bandwidth_is_that_of_a_ring() -> None:
    planned = [[Meeting("dp", (0, 1, 2, 3), (MS, MS, MS, MS), MS)] for _ in range(8)]
    every = [summary(rank, one) for rank, one in enumerate(simulate(4, planned))]
    (found,) = verdict_of("job", every).collectives
    assert (found.operation, found.ranks, found.bytes, found.count) == ("AllReduce", 4, MS, 8)
    # 2 x 3 / 4 of a megabyte in a millisecond
    assert found.bus_bytes_per_s == pytest.approx(1.5e9, rel=0.01)


def test_a_hang_names_who_did_not_come() -> None:
    planned = [[Meeting("dp", (0, 1, 2), (MS, MS, MS))] for _ in range(8)]
    every = []
    for rank, one in enumerate(simulate(3, planned)):
        came = rank != 1
        call = LastCall("dp", "", 9 if came else 8, 8 if came else 7, "AllReduce", 20 * MS, came)
        every.append(summary(rank, one, calls=(call,), end_ns=60_000 * MS))
    found = verdict_of("job", every).findings[0]
    assert found.rule == "hang"
    assert found.ranks == ("rank 1",)
    assert "did not join AllReduce 8" in found.title
    running = [replace(one, identity=replace(one.identity, end_ns=30 * MS)) for one in every]
    assert all(item.rule != "hang" for item in verdict_of("job", running).findings)


def hung(rank: int, *, calls: int, pending: int, operation: str, size: int = 64) -> RankSummary:
    """Return a rank whose recording has some calls, the last of them without an end."""
    planned = [[Meeting("dp", (0, 1, 2), (MS, MS, MS))] for _ in range(8)]
    call = LastCall("dp", "", calls, calls - 1, operation, 20 * MS, pending, operation, size)
    made = summary(rank, simulate(3, planned)[rank], calls=(call,), end_ns=60_000 * MS)
    return replace(made, doing=("step_9", "load_batch") if not pending else ())


def test_a_hang_of_recordings_that_begin_at_different_calls() -> None:
    """Those of --keep-last: numbers of calls count from the start of each."""
    every = [
        hung(0, calls=20, pending=1, operation="AllReduce"),
        hung(1, calls=35, pending=0, operation="AllReduce"),
        hung(2, calls=31, pending=2, operation="AllReduce"),
    ]
    found = verdict_of("job", every)
    assert [item.ranks for item in found.findings if item.rule == "hang"] == [("rank 1",)]
    assert found.findings[0].title == "The job hangs: rank 1 did not join AllReduce"
    assert "rank 1 is in `step_9` > `load_batch`" in found.findings[0].claim
    assert "The job hangs: rank 1 did not join AllReduce." in found.verdict
    assert "No rank delays the others" not in found.verdict


@pytest.mark.parametrize("other", [("Broadcast", 64), ("AllReduce", 128)])
def test_ranks_that_wait_in_different_calls(other: tuple[str, int]) -> None:
    operation, size = other
    every = [
        hung(0, calls=20, pending=1, operation="AllReduce"),
        hung(1, calls=9, pending=1, operation=operation, size=size),
        hung(2, calls=20, pending=1, operation="AllReduce"),
    ]
    found = verdict_of("job", every).findings[0]
    assert (found.rule, found.ranks) == ("collective-mismatch", ("rank 1",))
    assert f"rank 1 called {operation}" in found.title
    same = [hung(rank, calls=9, pending=1, operation="AllReduce") for rank in range(3)]
    assert all(item.rule != "collective-mismatch" for item in verdict_of("job", same).findings)


def test_a_gpu_at_a_lower_clock_is_reported() -> None:
    planned = [[Meeting("dp", (0, 1, 2, 3), (MS, MS, MS, MS))] for _ in range(8)]
    every = []
    for rank, one in enumerate(simulate(4, planned)):
        made = summary(rank, one)
        hz = 1_400_000_000 if rank == 3 else 1_980_000_000
        facts = replace(made.identity, sm_clock_hz=hz, clock_limits="SW thermal slowdown 80%")
        every.append(replace(made, identity=facts))
    (found,) = (f for f in verdict_of("job", every).findings if f.rule == "slow-clock")
    assert found.ranks == ("rank 3",)
    assert "SW thermal slowdown 80%" in found.claim


def test_ranks_whose_recording_is_lost_are_not_waited_for(
    base: tuple[object, RankSummary],
) -> None:
    job = replace(SKEWED, faults=(Fault("slow", (5,), 1.15),))
    times = timeline(base[0].step, job)  # type: ignore[attr-defined]
    every = [one for rank, one in enumerate(summaries(base[1], times, 4)) if rank not in (2, 6)]
    assert [item.rank for item in verdict_of("job", every).stragglers] == [5]
    without = [one for one in every if one.identity.rank != 5]
    assert verdict_of("job", without).stragglers == ()


def test_one_rank_alone_has_no_waits(base: tuple[object, RankSummary]) -> None:
    found = verdict_of("job", [base[1]])
    assert len(found.ranks) == 1
    assert "No rank delays" not in found.verdict
    assert found.ranks[0].clock_offset_ns is None


def test_the_breakdown_adds_up(base: tuple[object, RankSummary]) -> None:
    found, _ = answer(base, SKEWED)
    assert found.total_ns == sum(round(rank.step_ns * rank.steps) for rank in found.ranks)
    assert {part.category for part in found.breakdown} <= {part.label for part in TimePart}
