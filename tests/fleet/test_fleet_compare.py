"""`warpline fleet compare`: planted changes, stragglers, other sizes, and what it prints."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.fleets import Meeting, simulate, summary
from support.json_schema import violations

from warpline import api
from warpline.cli import main
from warpline.fleet.comparing import compare_jobs
from warpline.fleet.sides import JobSide, side_of
from warpline.fleet.summary import RankSummary
from warpline.render import Options
from warpline.render import fleet_comparison as rendering
from warpline.result.fleet_comparison import FleetComparison

MS = 1_000_000


def ranks_of(
    *,
    factor: float = 1.0,
    ranks: int = 4,
    steps: int = 20,
    late: int | None = None,
    seed: int = 0,
    hosts: str = "n{}",
) -> list[RankSummary]:
    """Return the ranks of a job: two collectives per step; a late rank works 30% longer."""
    rng = np.random.default_rng(seed)
    slow = np.array([1.3 if rank == late else 1.0 for rank in range(ranks)])
    job = []
    for _ in range(steps):
        work = 10 * MS * factor * slow * np.exp(0.01 * rng.standard_normal((2, ranks)))
        job.append([Meeting("all", tuple(range(ranks)), tuple(map(int, row))) for row in work])
    recorded = simulate(ranks, job)
    return [
        summary(rank, one, host=hosts.format(rank // 2), clock_ns=rank * 7 * MS)
        for rank, one in enumerate(recorded)
    ]


def job_of(**planted: object) -> JobSide:
    return side_of("job", ranks_of(**planted))  # type: ignore[arg-type]


def jobs_of(seeds: Sequence[int], **planted: object) -> list[JobSide]:
    return [job_of(seed=seed, **planted) for seed in seeds]


def test_a_planted_change_is_found_and_explained() -> None:
    found = compare_jobs(jobs_of(range(3)), jobs_of(range(3, 6), factor=0.9))
    step = found.steps.step
    assert found.verdict == "faster"
    assert step is not None
    assert step.low is not None
    assert step.high is not None
    assert step.low <= 0.9 <= step.high
    assert sum(part.delta_ns for part in found.steps.parts) == step.delta_ns
    assert "of it is gemm" in found.sentence
    assert all(item.own.is_significant for item in found.ranks)
    (kind,) = found.collectives
    assert (kind.change, kind.operation, kind.transfer.is_significant) == (
        "both",
        "AllReduce",
        False,
    )


def test_equal_jobs_are_the_same_or_undecided() -> None:
    assert compare_jobs(jobs_of(range(4)), jobs_of(range(4, 8))).verdict == "same"
    one = compare_jobs([job_of()], [job_of(seed=1)])
    assert one.verdict == "undecided"
    assert any(text.startswith("One run per side") for text in one.steps.limits)
    assert not any(item.own.is_significant for item in one.ranks)


def test_the_ranks_of_a_job_are_not_samples() -> None:
    """More ranks of the same job do not make an interval narrower."""
    wide = {}
    for ranks in (4, 16):
        found = compare_jobs([job_of(ranks=ranks)], [job_of(ranks=ranks, seed=1)])
        step = found.steps.step
        assert step is not None
        assert step.low is not None
        assert step.high is not None
        wide[ranks] = step.high - step.low
    assert wide[16] == pytest.approx(wide[4], rel=0.1)


@pytest.mark.parametrize(
    ("before", "after", "changes", "said"),
    [
        (2, None, ["gone"], "Rank 2 no longer delays the others."),
        (None, 1, ["new"], "Rank 1 now delays the others."),
        (1, 1, ["same"], "Rank 1 still delays the others."),
        (
            1,
            3,
            ["new", "gone"],
            "Rank 3 now delays the others. Rank 1 no longer delays the others.",
        ),
    ],
)
def test_stragglers(before: int | None, after: int | None, changes: list[str], said: str) -> None:
    found = compare_jobs([job_of(late=before)], [job_of(late=after, seed=1)])
    assert [item.change for item in found.stragglers] == changes
    assert said in found.sentence


def test_a_straggler_of_one_of_three_jobs_is_none_of_the_side() -> None:
    before = [job_of(), job_of(seed=1), job_of(seed=2, late=1)]
    assert compare_jobs(before, jobs_of((3, 4, 5))).stragglers == ()


def test_jobs_of_different_size_are_compared_per_rank() -> None:
    found = compare_jobs(jobs_of(range(3), ranks=2), jobs_of(range(3, 6), factor=0.8))
    assert found.verdict == "faster"
    assert "The jobs have 2 and 4 ranks: times are per rank." in found.sentence
    assert [(item.rank, item.change) for item in found.ranks[2:]] == [(2, "new"), (3, "new")]
    (kind,) = found.collectives  # of all ranks, however many
    assert kind.before is not None
    assert kind.after is not None
    assert (kind.before.ranks, kind.after.ranks) == (2, 4)
    assert any("another share of the batch" in text for text in found.steps.limits)


def test_waits_that_are_unknown_on_a_side_are_not_gone() -> None:
    alone = side_of("job", ranks_of(late=1)[:1])
    found = compare_jobs([job_of(late=1)], [alone])
    assert found.waits is None
    assert found.stragglers == ()
    assert found.collectives == ()
    assert found.ranks[0].own.before_ns is None
    assert "delays" not in found.sentence
    assert not [item for item in found.steps.findings if item.rule == "straggler"]


def test_other_machines_and_another_gpu() -> None:
    found = compare_jobs([job_of()], [job_of(seed=1, hosts="m{}")])
    fact = found.steps.environment[0]
    assert (fact.before, fact.after) == ("n0 and n1 (of 2)", "m0 and m1 (of 2)")
    assert {item.change for item in found.hosts} == {"new", "gone"}

    def with_gpu(name: str) -> JobSide:
        every = ranks_of()
        facts = {"GPU": name, "host": "n0", "ranks": "1"}
        return side_of(
            "job",
            [replace(one, identity=replace(one.identity, environment=facts)) for one in every],
        )

    other = compare_jobs([with_gpu("NVIDIA H100")], [with_gpu("NVIDIA H200")])
    assert other.sentence.startswith("Cannot decide: the GPUs differ (NVIDIA H100 and NVIDIA H200)")


def contents(found: FleetComparison, name: str) -> str:
    out = io.StringIO()
    rendering.WRITERS[name](found, out, Options())
    return out.getvalue()


def test_what_is_written(repository: Path) -> None:
    path = repository / "docs" / "fleet-compare.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    before = [side_of("run1/*", ranks_of(late=2, ranks=6))]
    after = [side_of("run2/*", ranks_of(factor=0.5, seed=1))]
    whole = compare_jobs(before, after)
    alone = compare_jobs(before, [side_of("one", ranks_of()[:1])])
    for found in (whole, alone):
        assert violations(json.loads(contents(found, "json")), schema) == []
    text = contents(whole, "text")
    assert text.startswith("run2/* compared with run1/*\n  Faster: ")
    for shown in ("gone: rank 2 on n1, slow-gpu", "waits for other ranks", "2 ranks only"):
        assert shown in text
    assert "| waits for other ranks |" in contents(whole, "markdown")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the two ranks of a real job."""
    from support.captures import unpack

    folder = tmp_path_factory.mktemp("job")
    for rank in (0, 1):
        unpack(f"ddp_serial.bad.rank{rank}", folder)
    return folder


def test_real_ranks_have_the_verdict_of_compare(pair: Path) -> None:
    files = sorted(pair.iterdir())
    both, alone = files, files[:1]
    found = api.compare_fleets(both, alone, workers=1)
    assert (found.steps.before.runs, found.steps.before.ranks) == (1, 2)  # distinct ranks
    other = api.compare([*map(str, both)], str(alone[0]))
    assert found.steps.step is not None
    assert other.step is not None
    for name in ("before_ns", "after_ns", "ratio"):
        assert getattr(found.steps.step, name) == getattr(other.step, name)
    ours, theirs = (
        {part.category: part.delta_ns for part in parts}
        for parts in (found.steps.parts, other.parts)
    )
    busy = {part.category for part in found.steps.parts if part.kind == "busy"}
    assert {name: ours[name] for name in busy} == {name: theirs[name] for name in busy}
    gpu = next(fact for fact in found.steps.environment if fact.name == "GPU")
    assert gpu.before == "NVIDIA H200"


def test_exit_status_and_mistakes(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", "compare", str(pair), f"{pair}/*", "--workers", "1"]
    assert main([*words, "--fail-on", "5%", "-q"]) == 4
    out = capsys.readouterr().out
    assert "Cannot decide" in out
    assert "Both sides have a recording in common." in " ".join(out.split())
    target = pair.parent / "compared.html"
    assert main([*words, "--fail-on", "5%", "-o", str(target)]) == 4  # a page has the same status
    said = capsys.readouterr()
    assert said.out == f"{target}\n"
    assert "Cannot decide" in said.err
    assert "the file opens in a browser" in said.err
    assert "How each rank changed" in target.read_text(encoding="utf-8")  # in the script
    assert "Both sides have a recording in common." in target.read_text(encoding="utf-8")
    assert main([*words, "-o", str(target)]) == 2  # it exists
    assert "exists" in capsys.readouterr().err
    for arguments, message in (
        ((), "missing BEFORE and AFTER arguments"),
        (("a", "b", "c"), "two jobs are compared, 3 arguments given"),
        (("a", "--before", "b"), "name both sides"),
        (("x/*.warpline", "y"), "no recording matches x/*.warpline"),
        (("a", "b", "--fail-on", "0"), "--fail-on: '0' is not a share"),
        (("a", "b", "-f", "csv"), "unknown format 'csv'"),
        (("a", "b", "-f", "html"), "unknown format 'html'"),
        (("a.warpline", "b.warpline"), "none of 1 recording could be used: a.warpline"),
    ):
        assert main(["fleet", "compare", *arguments]) in {1, 2}
        said = capsys.readouterr()
        assert said.out == ""
        assert message in said.err
        assert len(said.err.splitlines()) <= 2
