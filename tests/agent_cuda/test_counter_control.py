"""Clocks and caches of the GPU while counting, with CUPTI 13.4, and programs that are stopped."""

from __future__ import annotations

import os
import subprocess

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import ControlFile, State


class Controlled:
    """Counts with CUPTI 13.4; `folder` is the last session's.

    Returns the kernels, and what the fake was told of clocks and caches. `is_cut`: the program ends
    without its exit handlers, so that values may be missing.
    """

    def __init__(self, run, cuda, told):
        self._run, self._cuda, self._told = run, cuda, told
        self.folder = None

    def __call__(
        self, *words, environment=None, metrics=counted.LIGHT, cupti=None, is_cut=False, **keys
    ):
        more = {"FAKE_CUPTI_LOG": str(self._told), **(environment or {})}
        status = keys.pop("status", 0)
        self.folder = self._run(
            "init",
            *words,
            cupti=cupti or self._cuda.cupti13_4,
            environment=more,
            status=status,
            **counted.keys(metrics, **keys),
        )
        kernels = counted.read(self.folder)
        if not is_cut:
            counted.check_values(kernels, metrics)
        lines = self._told.read_text().splitlines()
        return kernels, [line for line in lines if line.startswith(("clocks", "caches"))]


@pytest.fixture
def controlled(run, cuda, tmp_path):
    return Controlled(run, cuda, tmp_path / "told")


def notes(folder, kind):
    """Return the texts of notes of a kind."""
    return [text for of, text in logs.notes(folder) if of == kind]


@pytest.mark.parametrize(("clocks", "mode"), [("base", 1), ("boost", 2)])
@pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])
def test_clocks_are_locked_and_unlocked(controlled, clocks, mode, metrics):
    kernels, seen = controlled("repeat", 3, "k1", metrics=metrics, clocks=clocks)
    assert seen == [f"clocks_lock {mode}", "clocks_unlock 0"]
    assert [one.record.fixed_clocks for one in kernels] == [True] * 3
    assert notes(controlled.folder, logs.NOTE_CLOCKS_LOCKED) == ["1"]
    assert notes(controlled.folder, logs.NOTE_CLOCKS_UNLOCKED) == ["1"]


def test_clocks_are_left_alone_without_the_option(controlled):
    kernels, seen = controlled("repeat", 3, "k1")
    assert seen == []
    assert [one.record.fixed_clocks for one in kernels] == [None] * 3


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (("repeat", 1, "k1", "end_context", 2), ["k1g1"]),
        (("repeat", 1, "k1", "detach_cuda"), ["k1g1"]),
        (("repeat", 1, "k1", "exit", 0), ["k1g1"]),
        (("repeat", 1, "k1", "fork"), ["k1g1"]),
    ],
)
def test_clocks_are_unlocked_at_every_end(controlled, words, items):
    kernels, seen = controlled(*words, clocks="base")
    assert [one.item for one in kernels] == items
    assert seen == ["clocks_lock 1", "clocks_unlock 0"]


def test_clocks_are_locked_again_for_another_context(controlled):
    words = ("repeat", 1, "k1", "end_context", 2, "context", 4, "repeat", 1, "k2", "end_context", 4)
    kernels, seen = controlled(*words, clocks="base")
    assert [one.item for one in kernels] == ["k1g1", "k2g1"]
    assert seen == ["clocks_lock 1", "clocks_unlock 0"] * (len(seen) // 2)


def test_clocks_are_unlocked_when_all_is_counted(controlled):
    _, seen = controlled("repeat", 5, "k1", "quit", 0, clocks="base", count=2, is_cut=True)
    assert seen == ["clocks_lock 1", "clocks_unlock 0"]


@pytest.mark.parametrize("function", ["cuptiRangeProfilerEnable", "cuptiRangeProfilerStart"])
def test_clocks_are_unlocked_when_counters_cannot_be_used(controlled, function):
    words = ("repeat", 2, "k1", "memory", "quit", 0)
    refused = {"FAKE_COUNTERS_REFUSE": f"{function}=26"}
    kernels, seen = controlled(*words, environment=refused, clocks="base")
    assert kernels == []
    assert seen == ["clocks_lock 1", "clocks_unlock 0"]
    assert counted.output(controlled.folder) == "memory 2 of 2, 0 failed\n"


def test_a_process_that_is_killed_leaves_a_note_of_the_lock(controlled):
    controlled("repeat", 5, "k1", "quit", 0, clocks="base", is_cut=True)
    assert notes(controlled.folder, logs.NOTE_CLOCKS_LOCKED) == ["1"]
    assert notes(controlled.folder, logs.NOTE_CLOCKS_UNLOCKED) == []


@pytest.mark.parametrize(
    ("environment", "said", "is_fixed"),
    [
        ({"FAKE_COUNTERS_REFUSE": "cuptiClockControlLock=35"}, "needs root", False),
        ({"FAKE_COUNTERS_REFUSE": "cuptiClockControlLock=27"}, "does not support it", False),
        ({"FAKE_CLOCKS": "2"}, "were locked before", True),
    ],
)
def test_clocks_that_cannot_be_locked(controlled, environment, said, is_fixed):
    kernels, seen = controlled("repeat", 3, "k1", environment=environment, clocks="boost")
    assert seen == []
    assert [one.record.fixed_clocks for one in kernels] == [is_fixed] * 3
    (text,) = notes(controlled.folder, logs.NOTE_COUNTERS_DOUBT)
    assert text.startswith("clocks of GPU 1 ")
    assert said in text


def test_clocks_of_one_gpu_only(controlled):
    words = ("repeat", 1, "k1", "context", 1, "repeat", 1, "k2", "context", 2, "repeat", 1, "k3")
    kernels, seen = controlled(*words, clocks="base")
    assert seen == ["clocks_lock 1", "clocks_unlock 0"]
    fixed = {one.item: one.record.fixed_clocks for one in kernels}
    assert fixed == {"k1g1": True, "k2g1": False, "k3g1": True}
    (text,) = notes(controlled.folder, logs.NOTE_COUNTERS_DOUBT)
    assert text == "clocks of GPU 0 are not locked: CUPTI locks those of one GPU per process"


@pytest.mark.parametrize(
    ("metrics", "passes"), [(counted.LIGHT, 1), (counted.HEAVY, counted.PASSES)]
)
def test_caches_are_flushed_before_each_pass(controlled, metrics, passes):
    kernels, seen = controlled("repeat", 3, "k1", metrics=metrics, caches="all")
    assert len(kernels) == 3
    assert seen == ["caches_flush 0"] * 3 * passes


@pytest.mark.parametrize("keys", [{"clocks": "base"}, {"caches": "all"}])
def test_an_older_cupti_is_refused(controlled, cuda, keys):
    controlled("repeat", 3, "k1", "memory", cupti=cuda.cupti13_3, **keys)
    (text,) = notes(controlled.folder, logs.NOTE_NO_COUNTERS)
    assert text.endswith("\tuse CUPTI 13.4 or later")
    assert counted.output(controlled.folder) == "memory 3 of 3, 0 failed\n"


def test_the_session_is_stopped_when_all_is_counted(controlled):
    kernels, _ = controlled("repeat", 5, "k1,k2", "kill", count=3, kill=1, status=-9)
    assert [one.item for one in kernels] == ["k1g1", "k2g1", "k1g1"]
    assert ControlFile.open(controlled.folder).state is State.STOPPED


def test_the_session_goes_on_if_fewer_launches_are_made(controlled):
    controlled("repeat", 1, "k1,k2", count=3, kill=1)
    assert ControlFile.open(controlled.folder).state is State.RECORDING


PROCESSES = [
    ({"processes": ["cuda_app"]}, True),
    ({"processes": ["cuda"]}, False),
    ({"processes": ["regex:^cuda"]}, True),
    ({"processes": ["exclude:cuda_app"]}, False),
    ({"processes": ["exclude:other"]}, True),
    ({"processes": ["exclude:cuda_app", "cuda_app"]}, False),
    ({"processes": ["cuda_app", "exclude:cuda_app"]}, True),
    ({"processes": ["other", "exclude:another"]}, False),
    ({"only_program": 1, "program": 1}, False),
]


@pytest.mark.parametrize(("keys", "is_counted"), PROCESSES)
def test_processes(controlled, keys, is_counted):
    kernels, _ = controlled("repeat", 2, "k1", "memory", **{"program": 0, **keys})
    assert len(kernels) == (2 if is_counted else 0)
    assert bool(notes(controlled.folder, logs.NOTE_NOT_CHOSEN)) is not is_counted
    assert counted.output(controlled.folder) == "memory 2 of 2, 0 failed\n"


@pytest.mark.parametrize(("tree", "is_counted"), [("bash", False), ("zsh", True)])
def test_children_of_an_excluded_process(cuda, session, tree, is_counted):
    filters = [f"exclude-tree:{tree}", "cuda_app"]
    keys = counted.keys(processes=filters, program=os.getpid())
    new = session(cuda=1, cupti_path=[cuda.cupti13], **keys)
    command = " ".join(cuda.command("init", "repeat", 2, "k1"))
    subprocess.run(
        ["bash", "-c", f"{command}; true"], env=cuda.environment(new), check=True, timeout=60
    )
    assert len(counted.read(new.folder)) == (2 if is_counted else 0)
