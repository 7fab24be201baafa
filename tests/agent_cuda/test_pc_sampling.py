"""Program counters that the fake CUPTI samples all the time, as the agent writes them down.

Whatever the agent does wrong with CUPTI, the fake tells on standard error, where `run` expects
nothing.
"""

from __future__ import annotations

import subprocess
import time

import pytest
from agent_cuda import cuda_logs as logs
from agent_cuda import sampled_pcs as pcs


def told(folder, kind):
    """Return the texts of the notes of one kind."""
    return [text for found, text in logs.notes(folder) if found == kind]


def test_samples_of_all_launches_are_added_up(run):
    folder = run("init", "repeat", 40, "k7g2,k18g3", "memory", **pcs.keys())
    wanted = pcs.added([pcs.of_launch(7, 80), pcs.of_launch(18, 120)])
    assert pcs.read(folder) == wanted
    assert pcs.sums(folder) == {
        1: {
            "total": sum(samples for samples, _ in wanted.values()),
            "dropped": 0,
            "non_user": 0,
            "left_out": 0,
            "is_full": 0,
        }
    }
    assert told(folder, logs.NOTE_SAMPLING) == ["every 2^14 cycles, 5 stall reasons"]
    assert (folder / "stdout").read_text() == "memory 80 of 80, 0 failed\n"


def test_code_of_modules_is_kept_once(run):
    folder = run("init", "repeat", 3, "k7,k8,k18", "context", 3, "repeat", 1, "k7", **pcs.keys())
    found = pcs.modules(folder)
    assert {number: code[-8:] for number, code in found.items()} == {
        0: b"cubin 0\n",
        1: b"cubin 1\n",
    }
    assert set(pcs.sums(folder)) == {0, 1}


def test_code_without_room_is_left_out_and_counted(run):
    folder = run(
        *("init", "repeat", 2, "k7,k18,k28"),
        **pcs.keys(cubin_bytes=150_000),
        environment={"FAKE_CUBIN_BYTES": "100000"},
    )
    assert list(pcs.modules(folder)) == [0]
    assert len(pcs.modules(folder)[0]) == 100_000
    assert pcs.sums(folder)[1]["left_out"] == 2


def test_nothing_else_is_recorded_and_no_call_is_watched(run):
    folder = run("init", "callbacks", "repeat", 5, "k1,m,s", "callbacks", **pcs.keys())
    # A context begins and a module is loaded; no launch calls the agent.
    assert (folder / "stdout").read_text() == "callbacks 0\ncallbacks 0\n"
    assert logs.found(folder, logs.KERNEL) == []
    assert logs.calls(folder) == {}


def test_a_program_without_kernels(run):
    folder = run("init", "sleep", 1, **pcs.keys())
    assert pcs.read(folder) == {}
    assert pcs.sums(folder)[1]["total"] == 0


def test_sampling_ends_before_a_green_context_comes(run):
    """CUPTI crashes programs that are sampled and have green contexts."""
    folder = run(
        *("init", "repeat", 5, "k7", "call_with", 1, 30, 0, "0", "context", 3, "repeat", 5, "k7"),
        *("call_with", 1, 30, 0, "0"),
        **pcs.keys(),
    )
    assert pcs.read(folder) == pcs.of_launch(7, 5)
    (text,) = told(folder, logs.NOTE_SAMPLING_DOUBT)
    assert "green context" in text
    assert set(pcs.sums(folder)) == {1}


def test_graphs_are_sampled(run):
    folder = run(
        *("init", "stream", 3, "begin_capture", "repeat", 1, "k5,k6g4", "end_capture"),
        *("launch_graph", 3),
        **pcs.keys(),
    )
    assert pcs.read(folder) == pcs.added([pcs.of_launch(5, 3), pcs.of_launch(6, 12)])


def test_one_context_of_a_gpu_is_sampled_at_a_time(run):
    folder = run(
        *("init", "repeat", 3, "k1", "context", 4, "repeat", 2, "k2", "end_context", 4),
        *("context", 3, "repeat", 1, "k3", "context", 4, "repeat", 1, "k2"),
        **pcs.keys(),
    )
    # Contexts 2 and 4 are of device 1: CUPTI crashes with samples of both.
    wanted = [pcs.of_launch(1, 3), pcs.of_launch(3, device=0)]
    assert pcs.read(folder) == pcs.added(wanted)
    (text,) = told(folder, logs.NOTE_SAMPLING_DOUBT)
    assert "only one context per GPU is sampled" in text


def test_a_context_is_sampled_when_the_one_before_has_ended(run):
    folder = run(
        *("init", "repeat", 3, "k1", "end_context", 2, "context", 4, "repeat", 2, "k2"),
        **pcs.keys(),
    )
    assert pcs.read(folder) == pcs.added([pcs.of_launch(1, 3), pcs.of_launch(2, 2)])


def test_samples_are_taken_before_a_module_is_unloaded(run):
    folder = run(
        *("init", "repeat", 3, "k7,k18", "unload", 0, "repeat", 2, "k7,k18", "unload", 1),
        **pcs.keys(),
    )
    assert pcs.read(folder) == pcs.added([pcs.of_launch(7, 5), pcs.of_launch(18, 5)])


def test_more_instructions_than_a_buffer_has_room_for(run):
    # The rest that is there at the end has a buffer of its own: all before must be taken by calls.
    folder = run("init", "repeat", 1, "k7000", "unload", 700, **pcs.keys())
    assert len(pcs.read(folder)) == 2 * 40000


def test_threads_and_contexts(run):
    folder = run("init", "thread_kernels", 4, 40, 2, **pcs.keys())
    launches = [(t, 1000 * t + i + 1) for t in range(4) for i in range(40)]
    # Thread t launches in context 2 + t % 2.
    wanted = [pcs.of_launch(t, grid, device=(t + 1) % 2) for t, grid in launches]
    assert pcs.read(folder) == pcs.added(wanted)


def test_dropped_samples_and_those_of_the_driver(run):
    folder = run(
        *("init", "repeat", 10, "k1"),
        **pcs.keys(),
        environment={"FAKE_PC_DROPPED": "7", "FAKE_PC_NON_USER": "5", "FAKE_PC_FULL": "1"},
    )
    found = pcs.sums(folder)[1]
    assert (found["dropped"], found["non_user"]) == (70, 50)
    own = sum(samples for samples, _ in pcs.read(folder).values())
    assert own == sum(samples for samples, _ in pcs.of_launch(1, 10).values())
    assert found["total"] == own + 120


def test_only_chosen_devices(run):
    folder = run(
        *("init", "repeat", 2, "k1", "context", 3, "repeat", 3, "k3"),
        **pcs.keys(counter_devices="0"),
    )
    assert pcs.read(folder) == pcs.of_launch(3, 3, device=0)
    assert set(pcs.sums(folder)) == {0}


def test_another_program_is_not_sampled(run):
    folder = run("init", "repeat", 2, "k1", **pcs.keys(counter_processes="python"))
    assert pcs.read(folder) == {}
    (text,) = told(folder, logs.NOTE_NOT_CHOSEN)
    assert "cuda_app" in text


def test_a_fork_leaves_it_to_its_parent(run):
    folder = run("init", "repeat", 2, "k1", "fork", "repeat", 2, "k1", **pcs.keys())
    assert pcs.read(folder) == pcs.of_launch(1, 4)
    assert (folder / "stdout").read_text() == "child 0\n"


# ---- ends


def test_a_killed_program_has_what_was_written(run):
    folder = run("init", "repeat", 5, "k1", "sleep", 2500, "kill", status=-9, **pcs.keys())
    assert pcs.read(folder) == pcs.of_launch(1, 5)


def test_exit_within_a_thread_of_launches(run):
    folder = run("init", "repeat", 5, "k1", "launch_on", 2, "exit", 3, status=3, **pcs.keys())
    assert pcs.read(folder)


def test_an_end_that_never_returns_is_not_waited_for(run):
    began = time.monotonic()
    folder = run(*("init", "repeat", 2, "k1"), **pcs.keys(), environment={"FAKE_PC_HANGS": "1"})
    assert time.monotonic() - began < 40
    (text,) = told(folder, logs.NOTE_SAMPLING_DOUBT)
    assert "last samples" in text


def in_process(cuda, new, **environment):
    """Run a program that records a part of itself, and launches kernels before and after."""
    kept = {**cuda.environment(None), **environment}
    del kept["CUDA_INJECTION64_PATH"]
    words = ("init", "repeat", 3, "k1", "attach", new.folder, cuda.agent, "repeat", 4, "k2,k1")
    return subprocess.run(
        cuda.command(*words, "detach", "repeat", 5, "k1", "memory"),
        env=kept,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_in_process(cuda, session):
    new = session(cuda=1, cupti_path=[cuda.cupti13], **pcs.keys())
    done = in_process(cuda, new)
    assert done.stderr == ""
    assert done.stdout == "attach 0 0\ndetach 0\nmemory 16 of 16, 0 failed\n"
    assert pcs.read(new.folder) == pcs.added([pcs.of_launch(2, 4), pcs.of_launch(1, 4)])


@pytest.mark.parametrize("function", ["cuptiPCSamplingGetData", "cuptiPCSamplingDisable"])
def test_buffers_last_as_long_as_sampling_that_does_not_end(cuda, session, function):
    """The thread of CUPTI writes into the buffer that it was configured with until the end."""
    new = session(cuda=1, cupti_path=[cuda.cupti13], **pcs.keys())
    done = in_process(cuda, new, FAKE_COUNTERS_REFUSE=f"{function}=999")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("memory 16 of 16, 0 failed\n")
    texts = told(new.folder, logs.NOTE_SAMPLING_DOUBT)  # one or more of each context
    assert {text.partition(": cupti")[0] for text in texts} == {"samples are missing"}
    assert all(function in text for text in texts)


# ---- refusals

REFUSALS = [
    ("cuptiPCSamplingEnable", 35),
    ("cuptiPCSamplingEnable", 26),
    ("cuptiPCSamplingGetNumStallReasons", 35),
    ("cuptiPCSamplingGetStallReasons", 999),
    ("cuptiPCSamplingSetConfigurationAttribute", 35),
]


@pytest.mark.parametrize(("function", "result"), REFUSALS)
def test_a_refusal_is_told(run, function, result):
    folder = run(
        *("init", "repeat", 4, "k1", "memory"),
        **pcs.keys(),
        environment={"FAKE_COUNTERS_REFUSE": f"{function}={result}"},
    )
    assert pcs.read(folder) == {}
    (text,) = told(folder, logs.NOTE_NO_SAMPLING)
    reason, _, number = text.partition("\t")
    assert reason.startswith(f"{function}: ")
    assert int(number) == result
    assert (folder / "stdout").read_text() == "memory 4 of 4, 0 failed\n"


@pytest.mark.parametrize("function", ["cuptiPCSamplingGetData", "cuptiPCSamplingDisable"])
def test_samples_that_cannot_be_taken(run, function):
    folder = run(
        *("init", "repeat", 4, "k1", "memory"),
        **pcs.keys(),
        environment={"FAKE_COUNTERS_REFUSE": f"{function}=999"},
    )
    (text,) = told(folder, logs.NOTE_SAMPLING_DOUBT)
    assert text.startswith(f"samples are missing: {function}")
    assert (folder / "stdout").read_text() == "memory 4 of 4, 0 failed\n"


def test_a_library_without_the_functions(run, cuda):
    folder = run("init", "repeat", 4, "k1", cupti=cuda.cupti12_bare, **pcs.keys())
    (text,) = told(folder, logs.NOTE_NO_SAMPLING)
    assert text.endswith("\tuse CUPTI 12.6 or later")


@pytest.mark.parametrize("cupti", ["cupti12", "cupti13", "cupti13_3", "cupti13_4"])
def test_versions_that_have_them(run, cuda, cupti):
    folder = run("init", "repeat", 4, "k1", cupti=getattr(cuda, cupti), **pcs.keys())
    assert pcs.read(folder) == pcs.of_launch(1, 4)
