"""Parallel groups: recognized from communicators, pipeline stages, experts, links."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.fleets import Meeting, summary
from support.fleets import simulate as meet
from support.json_schema import violations

from warpline import api
from warpline.fleet.kinds import kind_of
from warpline.fleet.summary import packed, unpacked
from warpline.fleet.traffic import Traffic
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "fleet"))

from job_layouts import Layout, simulate, step_ns, summaries

MS = 1_000_000
PIPELINE = Layout(tensor=2, pipeline=3, microbatches=4, layers=2, steps=4)
MOE = Layout(data=4, experts=4, layers=3, steps=8)


def answer(job: Layout) -> Fleet:
    return verdict_of("job", unpacked(packed(summaries(job, simulate(job)))))


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("DP 4", Layout(data=4)),
        ("FSDP 4", Layout(data=4, is_sharded=True)),
        ("TP 2 x FSDP 2", Layout(tensor=2, data=2, is_sharded=True)),
        ("TP 2 x PP 2 x DP 2", Layout(tensor=2, pipeline=2, data=2, microbatches=4, layers=2)),
        ("DP 4, EP 2", Layout(data=4, experts=2)),
    ],
)
def test_layouts_are_recognized(text: str, job: Layout) -> None:
    found = answer(replace(job, steps=4))
    assert found.layout == text
    assert f"({text})" in found.verdict
    assert all(item.kind != "unclear" for item in found.groups)


def test_groups_without_communicators_are_unclear() -> None:
    found = answer(Layout(tensor=2, data=2, steps=4, is_named=False))
    assert found.layout == ""
    assert {item.kind for item in found.groups} == {"unclear"}
    assert "communicators" in found.groups[0].why


def test_lost_recordings_leave_the_layout() -> None:
    job = Layout(tensor=2, pipeline=2, data=3, microbatches=4, layers=2, steps=4)
    every = [one for rank, one in enumerate(summaries(job, simulate(job))) if rank != 3]
    found = verdict_of("job", every)
    assert found.layout == "TP 2 x PP 2 x DP 3"
    assert [len(stage.ranks) for stage in found.pipeline.stages] == [5, 5]  # type: ignore[union-attr]


def test_without_steps_groups_are_unclear() -> None:
    job = Layout(data=4, steps=4)
    whole = []
    for one in summaries(job, simulate(job)):
        windows, steps = one.windows, one.steps
        last = windows.end_ns[-1:]
        whole.append(
            replace(
                one,
                steps=steps._replace(
                    **{name: values[:0] for name, values in steps._asdict().items()}
                ),
                windows=windows._replace(
                    step=windows.step[:1] * 0 - 1,
                    start_ns=windows.start_ns[:1],
                    end_ns=last,
                    parts_ns=windows.parts_ns.sum(axis=0, keepdims=True),
                    number=windows.number.sum(axis=0, keepdims=True),
                    work_ns=windows.work_ns.sum(axis=0, keepdims=True),
                ),
            )
        )
    found = verdict_of("job", whole)
    assert (found.steps, found.layout) == (0, "")
    assert {item.kind for item in found.groups} == {"unclear"}


def test_ranks_of_a_real_job_are_data_parallel(capture: Callable[[str], Path]) -> None:
    found = api.fleet([capture(f"ddp_serial.bad.rank{rank}") for rank in (0, 1)], workers=1)
    assert found.layout == "DP 2"
    assert found.groups[0].calls == {"AllReduce": 149.0}
    assert found.pipeline is None


def traffic(**changed: object) -> Traffic:
    usual = Traffic(
        ranks=(0, 1),
        calls={"AllGather": 12.0, "ReduceScatter": 12.0},
        gap=0.1,
        early=None,
        gathers_first=1.0,
        scatter_run=0.1,
        hidden=0.0,
        sizes=0,
        labels=("0x1234abcd",),
        is_named=True,
    )
    return usual._replace(**changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("tensor", traffic()),  # sequence-parallel: they take turns
        ("sharded-data", traffic(gathers_first=12.0)),
        ("sharded-data", traffic(gathers_first=0.0, scatter_run=1.0, gap=0.8)),
        ("tensor", traffic(calls={"AllReduce": 40.0})),
        ("data", traffic(calls={"AllReduce": 40.0}, gap=0.9)),
        ("data", traffic(calls={"AllReduce": 4.0}, gap=0.3, hidden=0.6)),
        ("unclear", traffic(calls={"AllReduce": 40.0}, gap=0.1, hidden=0.6)),
        ("data", traffic(calls={"AllReduce": 8.0}, early=0.0)),
        ("tensor", traffic(calls={"AllReduce": 64.0}, early=0.5)),
        ("expert", traffic(calls={"AllToAll": 16.0}, sizes=9)),
        ("unclear", traffic(calls={"AllToAll": 16.0}, sizes=1)),
        ("unclear", traffic(calls={"AllReduce": 0.2})),
        ("context", traffic(labels=("mesh_cp",))),
        ("expert", traffic(labels=("EXPERT_MODEL_PARALLEL_GROUP",))),
    ],
)
def test_kinds_of_groups(kind: str, seen: Traffic) -> None:
    assert kind_of(seen)[0] == kind


def test_bubbles_are_those_of_the_schedule(repository: Path) -> None:
    found = answer(PIPELINE)
    pipeline = found.pipeline
    assert pipeline is not None
    assert (len(pipeline.stages), pipeline.microbatches) == (3, 4)
    assert pipeline.bound_ratio == pytest.approx(2 / 6)
    assert pipeline.bubble_ratio == pytest.approx(2 / 6, abs=0.03)
    assert [stage.ranks for stage in pipeline.stages][1] == ("rank 2", "rank 3")
    assert [item.rule for item in found.findings] == ["pipeline-bubbles"]
    assert "(3 - 1) / (4 + 3 - 1)" in found.findings[0].claim
    schema = json.loads((repository / "docs" / "fleet.schema.json").read_text(encoding="utf-8"))
    assert violations(json.loads(json.dumps(found.to_dict())), schema) == []


@pytest.mark.parametrize(
    ("planted", "even", "cause"),
    [
        ({"more_layers": (1, 1)}, 7 / 6, "more-gpu-work"),
        ({"slow_stage": (2, 1.4)}, 3.4 / 3, "slow-gpu"),
    ],
)
def test_the_slow_stage_is_found(planted: dict[str, object], even: float, cause: str) -> None:
    found = answer(replace(PIPELINE, **planted))  # type: ignore[arg-type]
    first = found.findings[0]
    (stage,) = (value[0] for value in planted.values())  # type: ignore[index]
    assert first.rule == "slow-stage"
    assert first.ranks == (f"rank {2 * stage}", f"rank {2 * stage + 1}")
    assert {(item.pattern, item.cause) for item in found.stragglers} == {("one-stage", cause)}
    truth = step_ns(simulate(replace(PIPELINE, scale=even)))
    assert first.step_ns is not None
    assert first.step_ns.low <= truth <= first.step_ns.high
    assert "With balanced stages" in found.verdict


def test_a_slow_rank_is_not_its_stage() -> None:
    found = answer(replace(PIPELINE, slow_rank=(3, 1.4)))
    assert [(item.rank, item.cause) for item in found.stragglers] == [(3, "slow-gpu")]
    assert found.findings[0].rule == "straggler"


def test_a_rank_with_hot_experts_is_named() -> None:
    found = answer(replace(MOE, hot=((2,), 1.8)))
    assert found.experts is not None
    assert found.experts.hot == ("rank 2",)
    assert [(item.rank, item.cause) for item in found.stragglers] == [(2, "uneven-experts")]


def test_uneven_experts_are_no_rank_and_even_ones_no_finding() -> None:
    uneven = answer(replace(MOE, spread=0.4))
    (item,) = uneven.findings
    assert (item.rule, uneven.stragglers) == ("uneven-experts", ())
    truth = step_ns(simulate(replace(MOE, spread=0.4, is_even=True)))
    assert item.step_ns is not None
    assert item.step_ns.low <= truth <= item.step_ns.high
    assert answer(MOE).findings == ()


def test_a_slow_gpu_is_no_hot_expert() -> None:
    found = answer(replace(MOE, slow_rank=(1, 1.5)))
    assert found.experts is not None
    assert found.experts.hot == ()
    assert [(item.rank, item.cause) for item in found.stragglers] == [(1, "slow-gpu")]


def groups_of_two(slow: tuple[int, ...]) -> list[Meeting]:
    """Return a step of six pairs of ranks on neighboring machines."""
    return [
        Meeting(f"dp{pair}", (2 * pair, 2 * pair + 1), (MS, MS), MS * (2 if pair in slow else 1))
        for pair in range(6)
    ]


def test_machines_with_slow_transfers_are_one_finding() -> None:
    ranks = meet(12, [groups_of_two((4, 5))] * 8)
    every = [summary(rank, one, host=f"n{rank // 2}") for rank, one in enumerate(ranks)]
    found = verdict_of("job", every)
    (item,) = (item for item in found.findings if item.rule.startswith("slow-"))
    assert item.rule == "slow-network"
    assert "2 machines with slow transfers: 2.0 times as long as elsewhere (n4, n5)" in item.title


def test_the_link_is_that_of_one_machine() -> None:
    ranks = meet(4, [[Meeting("dp", (0, 1, 2, 3), (MS, MS, MS, MS), MS)]] * 8)
    one = [summary(rank, recorded) for rank, recorded in enumerate(ranks)]
    assert verdict_of("job", one).collectives[0].link_bytes_per_s == 450e9
    two = [summary(rank, recorded, host=f"n{rank}") for rank, recorded in enumerate(ranks)]
    assert verdict_of("job", two).collectives[0].link_bytes_per_s is None
