"""All ranges are recorded, however processes and threads are created."""

from __future__ import annotations

import pytest


def all_of(lab, *arguments, flags=()):
    """Profile a program; what was recorded is what it noted, to the last range."""
    run = lab.profile(lab.program("births", *arguments), flags=flags)
    assert run.status == 0, run.said
    assert run.recording.counts == lab.noted()
    assert run.recording.lost == 0
    assert not run.recording.truncated()
    return run.recording


def test_forks(lab):
    found = all_of(lab, "fork")
    assert found.totals() == {"before": 3, "child": 6, "grandchild": 7, "after": 2}
    assert len(found.counts) == 3


@pytest.mark.parametrize(("method", "pools"), [("fork", 3), ("spawn", 1), ("forkserver", 1)])
def test_pools(lab, method, pools):
    found = all_of(lab, "pool", method, str(pools))
    assert found.totals() == {"parent": 3, "task": 210 * pools}
    assert len(found.counts) > pools


def test_a_subprocess_of_a_subprocess(lab):
    found = all_of(lab, "nested")
    assert [names for _, names in sorted(found.counts.items())] == [
        {"first": 3},
        {"second": 4},
        {"third": 8},
    ]


def test_a_program_that_replaces_itself(lab):
    found = all_of(lab, "replaced")
    assert list(found.counts.values()) == [{"old": 6, "third": 8}]  # one pid
    assert len(found.trace["process"]) == 2  # two programs


def test_fifty_threads(lab):
    found = all_of(lab, "threads", "50", "40")
    assert found.totals() == {f"thread {number}": 40 for number in range(50)}
    assert len(found.trace["thread"]) == 50


def test_a_thousand_threads_one_after_another(lab):
    assert all_of(lab, "short_threads", "1000").totals() == {"short": 1000}


def test_forks_while_other_threads_record(lab):
    found = all_of(lab, "fork_with_threads")
    assert found.totals()["child"] == 30
    assert len(found.counts) == 11


def test_names_and_domains(lab):
    found = all_of(lab, "names", "2000")
    assert {name: count for name, count in found.totals().items() if "domain" not in name} == {
        f"name {number}": 2 for number in range(2000)
    }
    domains = found.trace["range"]["domain"].drop_nulls().to_list()
    assert sorted(set(domains)) == sorted(f"domain {number}" for number in range(40))
    assert len(domains) == 80


def test_a_fork_within_a_range(lab):
    run = lab.profile(lab.program("births", "fork_in_range"))
    assert run.status == 0, run.said
    parent, child = (names for _, names in sorted(run.recording.counts.items()))
    assert parent == {"outer": 1, "inner": 1}
    assert child == {"child": 3}
    assert not run.recording.truncated()


@pytest.mark.parametrize(
    ("words", "totals"),
    [
        (["fork"], {"inside": 5, "child": 6}),
        (["pool", "fork"], {"inside": 5, "task": 30}),
        (["pool", "spawn"], {"inside": 5, "task": 30}),
        (["pool", "forkserver"], {"inside": 5, "task": 30}),
    ],
)
def test_a_program_that_records_itself(lab, words, totals):
    run = lab.alone(lab.program("inside", *words))
    assert (run.status, run.stderr) == (0, b"")
    found = run.recording
    assert found.counts == lab.noted()
    assert found.totals() == totals
    assert len(found.trace["mark"]) == 0
    assert not lab.raw.exists()


def test_a_program_that_records_itself_and_is_killed(lab):
    run = lab.alone(lab.program("inside", "killed"))
    assert run.status == -9
    recovered = lab.recover()
    assert recovered.status == 0, recovered.said
    assert run.recording.counts == lab.noted()
    assert run.recording.totals() == {"inside": 5}
