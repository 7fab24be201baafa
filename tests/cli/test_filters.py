"""Filters: against nsys's numbers for a real recording, and against hand counts."""

from __future__ import annotations

import json

import pytest

# words -> table -> (rows, ns, instances) summed over the rows of what nsys 2024.2.3 prints for
# pageable_h2d.bad.sqlite with `nsys stats -r TABLE WORDS`.
NSYS = {
    "--filter-nvtx step_2": {
        "cuda_gpu_mem_time_sum": (3, 13812775, 10),
        "cuda_api_sum": (8, 14976021, 57),
        "nvtx_sum": (5, 33050013, 5),
        "cuda_gpu_kern_sum": (15, 2825704, 21),
    },
    "--filter-nvtx data/3": {
        "cuda_gpu_mem_time_sum": (2, 13557545, 5),
        "cuda_api_sum": (5, 14571105, 5),
        "nvtx_sum": (2, 31081948, 2),
        "cuda_gpu_kern_sum": (6, 1252790, 9),
    },
    "--filter-time 30ms/60ms": {
        "cuda_gpu_mem_time_sum": (3, 28660104, 14),
        "cuda_api_sum": (8, 30400790, 63),
        "nvtx_sum": (7, 86165703, 9),
        "cuda_gpu_kern_sum": (15, 3341988, 27),
    },
    "--filter-time 1e8/": {
        "cuda_gpu_mem_time_sum": (3, 13872072, 10),
        "cuda_api_sum": (8, 16173399, 57),
        "nvtx_sum": (5, 32720986, 5),
        "cuda_gpu_kern_sum": (15, 2477289, 20),
    },
}


def totals(run, *words):
    """Return rows, ns and instances of each table of ``warpline stats``."""
    found = json.loads(run("stats", *words, "-f", "json").out)
    return {
        table["name"]: (
            len(table["rows"]),
            sum(row["total_ns"] for row in table["rows"]),
            sum(row["instances"] for row in table["rows"]),
        )
        for table in found["tables"]
    }


@pytest.mark.parametrize("words", NSYS)
def test_numbers_are_those_of_nsys(run, bad, words):
    assert totals(run, bad, *words.split(), "-r", ",".join(NSYS[words])) == NSYS[words]


def test_a_range_takes_precedence_over_a_time_as_in_nsys(run, bad):
    words = ("--filter-nvtx", "step_2", "--filter-time", "0/1")
    assert totals(run, bad, *words, "-r", "nvtx_sum") == {"nvtx_sum": (5, 33050013, 5)}


def test_negative_times_may_follow_the_option(run, bad):
    for words in (["--filter-time", "-5ms/11ms"], ["--filter-time=-5ms/11ms"]):
        assert totals(run, bad, *words, "-r", "nvtx_sum")["nvtx_sum"][0] == 2  # step_0 and its data


def test_what_ended_when_the_window_began_is_outside(run, bad):
    # The first "forward" ends at 28543013; nsys lists it, step_0, and nothing else.
    inside, after = ("--filter-time=28543012/28543014", "--filter-time=28543013/28543014")
    assert totals(run, bad, "-r", "nvtx_sum", inside)["nvtx_sum"][0] == 2
    assert totals(run, bad, "-r", "nvtx_sum", after)["nvtx_sum"][0] == 1


def test_excluding_a_range_drops_what_it_launched(run, bad):
    whole = totals(run, bad, "-r", "cuda_gpu_kern_sum,nvtx_sum")
    part = totals(run, bad, "-r", "cuda_gpu_kern_sum,nvtx_sum", "--exclude", "step_0")
    # Each of the six steps has 5 ranges and launches 20 kernels.
    assert whole["cuda_gpu_kern_sum"][2] - part["cuda_gpu_kern_sum"][2] == 20
    assert whole["nvtx_sum"][2] - part["nvtx_sum"][2] == 5
    several = [word for step in range(6) for word in ("--exclude", f"step_{step}")]
    done = run("stats", bad, "-r", "nvtx_sum", *several)
    assert (done.status, done.out) == (1, "")


def test_dimensions_are_chosen_by_the_users_names(run, bad, fixed):
    table = ("-r", "cuda_api_sum", "-f", "csv")
    alone = run("stats", bad, *table).out
    assert run("stats", bad, fixed, "--process", "795", *table).out == alone
    assert run("stats", bad, "--process", "python3", *table).out == alone
    assert run("stats", bad, fixed, "--process", "795,916", *table).out != alone
    kernels = totals(run, fixed, "-r", "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum", "--stream", "13")
    assert kernels == {"cuda_gpu_mem_time_sum": (1, 14515959, 6)}  # its copy stream has no kernels
    assert (
        totals(run, fixed, "-r", "cuda_gpu_kern_sum", "--device", "0")["cuda_gpu_kern_sum"][2]
        == 120
    )


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("--process 5", "the recording has no process '5'", "processes: 795 python3"),
        ("--stream 7,99", "the recording has no stream '99'", "streams: 7"),
        (
            "--device GPU-ff",
            "the recording has no device 'GPU-ff'",
            "devices: 0 00000000-0000-0000-0000-000000000001",
        ),
        (
            "--filter-nvtx stop_3",
            "no range is named 'stop_3'",
            "did you mean step_3 (1 instance), step_5 (1 instance), step_4 (1 instance)?",
        ),
        (
            "--filter-nvtx data/6",
            "there is no 'data/6': range 'data' has 6 instances",
            "instances count from 0; the last is data/5",
        ),
        (
            "--exclude data/1",
            "no range is named 'data/1'",
            "did you mean data (6 instances)?",
        ),
        (
            "--filter-time 5",
            "invalid time range '5'",
            "use START/END, such as 1.5s/2s or 200ms/",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(run, bad, words, error, hint):
    done = run("stats", bad, *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [f"error: {error}", f"hint: {hint}"]


@pytest.mark.parametrize("words", ["--filter-time 10000s/", "--filter-time /-5s"])
def test_filters_that_exclude_everything_are_named(run, bad, words):
    done = run("stats", "-r", "cuda_gpu_kern_sum", bad, *words.split())
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines()[-2:] == [
        "note: cuda_gpu_kern_sum: skipped: the filters exclude all kernel events",
        f"hint: widen or remove {words}",
    ]
    said = [
        f"{words} excludes all GPU operations",
        "widen or remove the filters: the recording covers 0 ns to 118 ms",
    ]
    done = run("analyze", bad, *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [f"error: {said[0]}", f"hint: {said[1]}"]
    done = run(bad, *words.split())
    assert done.status == 0
    assert f"  widen or remove {words}\n" in done.out
    assert "--trace=cuda" not in done.out
    assert done.err.splitlines()[:2] == [f"warning: {said[0]}", f"hint: {said[1]}"]
