"""Launches chosen by the NVTX ranges that are open: the expressions of Nsight Compute."""

from __future__ import annotations

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

from warpline.capture.flags.nvtx_ranges import parse_ranges
from warpline.capture.session.control import RangeMode


class Chosen:
    """Runs commands with expressions; `folder` is the last session's.

    `include` and `exclude` are expressions; further keys are those of counters. Returns the numbers
    of the kernels that were counted.
    """

    def __init__(self, run):
        self._run = run
        self.folder = None

    def __call__(self, *words, include=(), exclude=(), mode=RangeMode.NONE, **more):
        more["nvtx_include"] = [parse_ranges("--nvtx-include", text).lines() for text in include]
        more["nvtx_exclude"] = [parse_ranges("--nvtx-exclude", text).lines() for text in exclude]
        self.folder = self._run("init", *words, mode=mode, nvtx=1, **counted.keys(**more))
        kernels = counted.read(self.folder)
        counted.check_values(kernels)
        return [one.number for one in kernels]


@pytest.fixture
def chosen(run):
    return Chosen(run)


def launch(number):
    """Return the words that launch a kernel."""
    return ("repeat", 1, f"k{number}")


def test_names_of_any_length(chosen):
    # The library's search would take 16 MB of the stack for such a name.
    words = ("push", "step" + "x" * 60_000, *launch(1), "pop", "push", "step", *launch(2), "pop")
    assert chosen(*words, include=["regex:.*gemm.*/"]) == []
    assert chosen(*words, include=["regex:.*ste.*/"]) == [1, 2]


# Kernel 1 is launched in A, 2 in A/B, 3 in A/B/C, 4 in A again, 5 in none, 6 in B, 7 in B/A.
NESTED = (
    *("push", "A", *launch(1), "push", "B", *launch(2), "push", "C", *launch(3), "pop", "pop"),
    *(*launch(4), "pop", *launch(5), "push", "B", *launch(6), "push", "A", *launch(7)),
    *("pop", "pop"),
)
STACKS = [
    (["A/"], [], [1, 2, 3, 4, 7]),
    (["B/"], [], [2, 3, 6, 7]),
    (["A/B"], [], [2, 3]),
    (["A/B/"], [], [2, 3]),
    (["B/A"], [], [7]),
    (["A/C"], [], []),
    (["A/+/C"], [], [3]),
    (["A/+/B"], [], []),
    (["A/*/C"], [], [3]),
    (["A/*/B"], [], [2, 3]),
    (["[A"], [], [1, 2, 3, 4]),
    (["[B"], [], [6, 7]),
    (["A]"], [], [1, 4, 7]),
    (["[A]"], [], [1, 4]),
    (["[A/+/C]"], [], [3]),
    (["C/", "B]"], [], [2, 3, 6]),
    (["A/"], ["B/"], [1, 4]),
    ([], ["A/"], [5, 6]),
    ([], ["A]"], [2, 3, 5, 6]),
    (["A/"], ["A/*/B"], [1, 4, 7]),
    (["regex:/[AC]/"], [], [1, 2, 3, 4, 7]),
    (["regex:^B$]"], [], [2, 6]),
    (["A"], [], []),
]


@pytest.mark.parametrize(("include", "exclude", "expected"), STACKS)
def test_push_pop_ranges(chosen, include, exclude, expected):
    assert chosen(*NESTED, include=include, exclude=exclude) == expected


STARTED = (
    *("range_start", "A", *launch(1), "range_start", "B", *launch(2), "range_end", "A"),
    *(*launch(3), "range_end", "B", *launch(4), "range_start", "A", "range_start", "A2"),
    *(*launch(5), "range_end", "A2", *launch(6), "range_end", "A", *launch(7)),
)


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["A"], [], [1, 2, 5, 6]),
        (["A,B"], [], [2]),
        (["A", "B"], [], [1, 2, 3, 5, 6]),
        (["A"], ["B"], [1, 5, 6]),
        ([], ["A"], [3, 4, 7]),
        (["regex:2$"], [], [5]),
        (["regex:^A"], [], [1, 2, 5, 6]),
        (["A/"], [], []),
    ],
)
def test_start_end_ranges(chosen, include, exclude, expected):
    assert chosen(*STARTED, include=include, exclude=exclude) == expected


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (["A/"], [1]),
        (["D@A/"], [2]),
        (["regex:^D@A/"], [2]),
        (["regex:D.*@A/"], [2, 3]),
        (["D@[A"], [2]),
    ],
)
def test_domains_have_stacks_of_their_own(chosen, include, expected):
    words = (
        *("push", "A", *launch(1), "pop", "push", "X", "push_in", "D", "A", *launch(2), "pop_in"),
        *("D", "push_in", "ED2", "A", *launch(3), "pop_in", "ED2", *launch(4), "pop"),
    )
    assert chosen(*words, include=include) == expected


def test_start_end_ranges_are_of_all_threads(chosen):
    words = ("range_start", "A", "thread_range", "other", 2, "range_end", "A")
    assert chosen(*words, include=["A"]) == [5, 5]


@pytest.mark.parametrize(
    ("scope", "include", "expected"),
    [
        ("thread", "step/", []),
        ("process", "step/", [5, 5]),
        ("process", "step/backward", [5, 5]),
        ("process", "[backward", []),
        ("thread", "[backward", [5, 5]),
    ],
)
def test_push_pop_ranges_of_other_threads(chosen, scope, include, expected):
    words = ("push", "step", "thread_range", "backward", 2, "pop", "thread_range", "late", 1)
    assert chosen(*words, include=[include], nvtx_scope=scope) == expected


@pytest.mark.parametrize("scope", ["thread", "process"])
def test_many_threads_at_once(chosen, scope):
    words = ("range_threads", 6, 100, "memory")
    found = chosen(*words, include=["A/*/regex", "A/"], exclude=["C/"], nvtx_scope=scope)
    assert counted.output(chosen.folder) == "memory 600 of 600, 0 failed\n"
    if scope == "thread":
        assert sorted(set(found)) == [0, 2, 4]
        assert len(found) == 300
    else:  # any of them is in A as long as one is
        assert len(found) >= 300


ITERATIONS = [word for i in range(1, 7) for word in ("push", f"it_{i}", *launch(i), "pop")]


@pytest.mark.parametrize(
    ("instances", "expected"),
    [("3", [3]), ("2-4", [2, 3, 4]), ("1,5-6", [1, 5, 6]), ("regex:[24]|6", [2, 4, 6])],
)
def test_instances(chosen, instances, expected):
    assert chosen(*ITERATIONS, include=["regex:it_/"], nvtx_instances=instances) == expected


def test_instances_of_nested_ranges_are_those_of_the_expression(chosen):
    words = ("push", "A", *launch(1), "push", "A", *launch(2), "pop", *launch(3), "pop")
    twice = (*words, *words)
    assert chosen(*twice, include=["A/"], nvtx_instances="2") == [1, 2, 3]
    assert chosen(*twice, include=["A/A"], nvtx_instances="2") == [2]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [2, 3, 5, 6]),
        ({"window_instances": "2"}, [5, 6]),
        ({"nvtx_instances": "3"}, [3]),
        ({"nvtx_instances": "5", "window_instances": "2"}, [5]),
        ({"nvtx_instances": "2", "window_instances": "2"}, []),
        ({"nvtx_instances": "2", "nvtx_per_window": 1}, [3, 6]),
        ({"nvtx_instances": "2", "nvtx_per_window": 1, "window_instances": "2"}, [6]),
    ],
)
def test_ranges_within_capture_ranges(chosen, keys, expected):
    windows = []
    for i in range(1, 7):
        windows += {2: ["start"], 4: ["stop"], 5: ["start"]}.get(i, [])
        windows += ["push", "A", *launch(i), "pop"]
    found = chosen(*windows, "stop", include=["A/"], mode=RangeMode.CUDA_PROFILER_API, **keys)
    assert found == expected


def test_skip_and_count_are_of_launches_in_the_ranges(chosen):
    assert chosen(*NESTED, include=["A/"], skip=1, count=2) == [2, 3]
    # These launches are skipped wherever they are.
    assert chosen(*NESTED, include=["B/"], skip_before_match=2) == [3, 6, 7]


def test_names_of_the_program_are_not_kept(chosen):
    words = [word for i in range(2000) for word in ("push", f"r{i}", "pop")]
    assert chosen(*words, "push", "A", *launch(1), include=["A/"]) == [1]


def test_ranges_that_are_not_closed(chosen):
    words = [word for _ in range(1100) for word in ("push", "deep")]
    words += ["pop"] * 1100
    assert chosen(*words, *launch(1), "push", "A", *launch(2), include=["A/"]) == [2]
    assert chosen("pop", "push", "A", *launch(1), "pop", "pop", *launch(2), include=["A/"]) == [1]


@pytest.mark.parametrize(
    ("words", "include", "said", "cure"),
    [
        (NESTED, "A", "it is a push/pop range", "use --nvtx-include 'A/'"),
        (STARTED, "A/", "it is a start/end range", "use --nvtx-include 'A'"),
        (NESTED, "D@A/", "are in the default domain", "use --nvtx-include 'A/'"),
        (("push_in", "NVTX", "A", *launch(1)), "A/", "in domain NVTX", "'NVTX@A/'"),
        (("push", "A", "thread_range", "B", 1), "A/", "in other threads", "--nvtx-push-pop-scope"),
        (NESTED, "Z/", "no NVTX range matched --nvtx-include Z/", "warpline profile"),
    ],
)
def test_why_nothing_was_chosen(chosen, words, include, said, cure):
    assert chosen(*words, include=[include]) == []
    (text,) = [text for kind, text in logs.notes(chosen.folder) if kind == logs.NOTE_NOT_CHOSEN]
    reason, hint = text.split("\t")
    assert said in reason
    assert cure in hint


def test_nothing_is_said_of_launches_that_other_filters_left_out(chosen):
    assert chosen(*NESTED, include=["A/"], name="other") == []
    assert logs.NOTE_NOT_CHOSEN not in [kind for kind, _ in logs.notes(chosen.folder)]
