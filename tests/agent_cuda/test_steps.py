"""Step sampling of CUDA: what is turned on and off, and what is kept at the edges of samples."""

from __future__ import annotations

import re

from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import RangeMode

LAUNCH = "cudaLaunchKernel_v7000"
BY_CALLS = {"mode": RangeMode.STEPS, "sample_calls": 1}
GRAPHS = "51"  # CUPTI's kind; it must not be turned on late


def _loop(steps):
    words = ["init", "launch", 50]
    for step in range(steps):
        words += ["start", "launch", step + 1, "stop", "launch", 1]
    return words


def test_profiler_calls_begin_steps(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *_loop(9),
        **BY_CALLS,
        sample_steps=2,
        sample_every=4,
        cuda_graph="graph",
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    # Steps 0, 1, 4, 5 and 8, with what follows cudaProfilerStop in each.
    assert logs.calls(folder) == {LAUNCH: 1 + 2 + 5 + 6 + 9 + 5}
    assert len(logs.found(folder, logs.KERNEL)) == 28
    notes = [
        (kind, text) for log in logs.read(folder) for kind, text in log.notes if kind in (6, 7)
    ]
    assert notes == [(6, "0"), (7, "2"), (6, "4"), (7, "6"), (6, "8")]
    # At rest no kind is on but what the agent cannot do without: each was turned off again.
    switched = re.findall(r"^(on|off) (\d+)$", told.read_text(), re.MULTILINE)
    assert [way for way, kind in switched if kind == GRAPHS] == ["on"]
    for kind in {kind for _, kind in switched} - {GRAPHS}:
        story = [way for way, other in switched if other == kind]
        assert story == ["on", "off"] * (len(story) // 2) + ["on"] * (len(story) % 2)
        assert story.count("on") == 3
    assert [one.collects != 0 for one in logs.found(folder, logs.COLLECTING)] == [
        *(True, False) * 2,
        True,
    ]


def test_cuptis_kind_of_waits_is_never_turned_on(run, tmp_path):
    # Once it was, it costs every launch something for good.
    told = tmp_path / "told"
    run(
        *_loop(3),
        **BY_CALLS,
        sample_steps=2,
        sample_every=2,
        cuda_waits="cupti",
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    switched = told.read_text().split("\n")
    assert "on 10" in switched
    assert "on 38" not in switched


def test_work_that_is_not_done_at_the_end_of_a_sample_is_kept(run):
    words = ["init", "start", "hold", "launch", 3, "start", "launch", 2, "release", "start"]
    folder = run(*words, **BY_CALLS, sample_steps=1, sample_every=2)
    assert logs.calls(folder) == {LAUNCH: 3}
    assert len(logs.found(folder, logs.KERNEL)) == 3


def test_a_fork_of_a_process_within_a_sample(run):
    folder = run(
        *("init", "start", "launch", 3, "fork", "launch", 1, "start", "launch", 4),
        **BY_CALLS,
        sample_steps=1,
        sample_every=2,
    )
    assert logs.calls(folder) == {LAUNCH: 4}
