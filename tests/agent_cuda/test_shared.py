"""Another profiler used CUPTI first: it is shared without harm, or the other one is named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent_cuda import cuda_logs as logs

import warpline
from warpline import native
from warpline.capture.session.control import RangeMode

HOUR_NS = 3_600_000_000_000
MONITOR = "CUPTI for torch-cupti-monitor"
SHARES = {
    "FAKE_CUPTI_BUSY": MONITOR,
    "FAKE_CUPTI_SHARES": "1",
    "FAKE_DRIVER_VERSION": "13030",
}
NAMED = "torch-cupti-monitor (PyTorch's monitor)"
HELD = "\theld"
ALONE = "\tunshared"
ANYONE = "another profiler (torch.profiler, nsys, ncu or another tool that uses CUPTI)"


@pytest.fixture
def share(run, cuda):
    """Return `run` beside another subscriber that allows others."""

    def record(*words, environment=(), **options):
        both = {**SHARES, **dict(environment)}
        return run(*words, cupti=cuda.cupti13_3, environment=both, **options)

    return record


def said(folder: Path, what: str) -> list[list[int]]:
    """Return the numbers of the lines that begin with a word, of what the program printed."""
    lines = (folder / "stdout").read_text().splitlines()
    return [[*map(int, line.split()[1:])] for line in lines if line.startswith(what)]


def texts(folder: Path, kind: int) -> list[str]:
    return [text for found, text in logs.notes(folder) if found == kind]


# ---- shared


def test_cuda_is_recorded_beside_the_other(share):
    folder = share("init", "launch", 5)
    assert len(logs.found(folder, logs.KERNEL)) == logs.calls(folder)["cudaLaunchKernel_v7000"] == 5
    assert texts(folder, logs.NOTE_SHARED) == [NAMED]
    kinds = {kind for kind, _ in logs.notes(folder)}
    assert kinds == {logs.NOTE_USING, logs.NOTE_SHARED}


def test_threads_launch_while_buffers_are_flushed(share):
    folder = share("init", "threads", 4, 3000, "detach_cuda", "other", cuda_buffer_bytes=16384)
    assert len(logs.found(folder, logs.KERNEL)) == 12_000
    ((given, held, cut, _),) = said(folder, "other")
    assert (given + held, cut) == (12_000, 0)


def test_every_record_is_read_as_without_the_other(share, run, cuda):
    keys = {"cuda_memory": 1, "cupti_waits": 1, "cuda_graph": "node"}
    both = share("init", "records", **keys), run("init", "records", cupti=cuda.cupti13_3, **keys)
    kinds = range(logs.KERNEL, logs.OVERHEAD + 1)
    shared, alone = ([one.fields for k in kinds for one in logs.found(f, k)] for f in both)
    assert shared == alone
    assert len(shared) > 10


def test_times_are_cuptis_and_clocks_are_compared(share):
    folder = share("init", "launch", 10)
    clocks = logs.found(folder, logs.CLOCK)
    assert clocks
    for clock in clocks:
        assert abs(clock.theirs - clock.monotonic - HOUR_NS) < 1_000_000
    calls = {call.correlation: call for call in logs.found(folder, logs.CALL)}
    kernels = logs.found(folder, logs.KERNEL)
    assert len(kernels) == 10
    for kernel in kernels:
        call = calls[kernel.correlation]
        assert call.start <= kernel.start - HOUR_NS <= call.end


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_times_of_a_clock_that_is_too_fast_are_the_hosts(share, tmp_path):
    drift = {"FAKE_CUPTI_DRIFT": "1000"}  # half a millisecond in each wait
    words = [word for _ in range(4) for word in ("launch", 5, "sleep", 500)]
    folder = share("init", *words, environment=drift)
    output = tmp_path / "run.warpline"
    done = subprocess.run(
        [sys.executable, "-m", "warpline", "recover", str(folder), "-o", str(output), "--keep"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    trace = warpline.open(output)
    rows = trace["api_call"].select("correlation_id", "start_ns", "end_ns").rows()
    calls = {correlation: (start, end) for correlation, start, end in rows}
    kernels = trace["kernel"].select("correlation_id", "start_ns").rows()
    assert len(kernels) == 20
    for correlation, start_ns in kernels:
        start, end = calls[correlation]
        assert start - 200_000 <= start_ns <= end + 200_000
    assert trace.meta.warnings == ()
    assert f"CUPTI is shared with {NAMED}" in " ".join(trace["diagnostic"]["text"].to_list())


def test_the_other_has_all_of_its_own_during_and_after(share):
    folder = share("init", "launch", 3, "detach_cuda", "other", "launch", 4, "other", "launch", 2)
    assert said(folder, "other") == [[3, 0, 0, 6], [3, 4, 0, 14]]
    assert len(logs.found(folder, logs.KERNEL)) == 3


def test_it_is_shared_again_in_the_same_program(session, cuda):
    new = session(cuda=1, cupti_path=[cuda.cupti13_3])
    environment = cuda.environment(None, **SHARES)
    del environment["CUDA_INJECTION64_PATH"]
    done = subprocess.run(
        cuda.command(
            *("preload", "init", "launch", 1, "attach", new.folder, cuda.agent, "launch", 3),
            *("detach", "launch", 2, "attach", new.folder, cuda.agent, "launch", 4, "detach"),
            *("launch", 5, "other"),
            cupti=cuda.cupti13_3,
        ),
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    kernels = logs.found(new.folder, logs.KERNEL)
    assert len(kernels) == 7
    given, held, cut, calls = map(int, done.stdout.splitlines()[-1].split()[1:])
    assert (given + held, cut, calls) == (15, 0, 30)


def test_what_is_not_complete_is_not_forced(share):
    folder = share("init", "launch", 2, "hold", "launch", 3, "detach_cuda", "other")
    (held,) = said(folder, "other")
    assert held[2] == 0
    assert held[0] + held[1] == 5


def test_the_work_that_is_under_way_is_waited_for_before_the_end(share):
    folder = share("init", "launch", 1, "detach_cuda", environment={"FAKE_WORK_MS": "300"})
    assert len(logs.found(folder, logs.KERNEL)) == 1


@pytest.mark.parametrize(("held", "given"), [([], (6, 0)), (["hold"], (0, 6))])
def test_the_other_keeps_its_own_at_the_end_of_the_program(share, tmp_path, held, given):
    at_exit = tmp_path / "at_exit"
    share("init", *held, "launch", 6, "exit", 0, environment={"FAKE_CUPTI_AT_EXIT": str(at_exit)})
    # What is not complete stays with CUPTI until the other has its turn.
    assert [*map(int, at_exit.read_text().split())] == [*given, 0, 12]


@pytest.mark.parametrize(
    ("asked", "environment", "told"),
    [
        ("node", {}, ""),
        ("graph", {}, ", which traces CUDA graphs at node level"),
        ("graph", {"FAKE_CUPTI_WHOLE_GRAPHS": "1"}, ""),
        (
            "node",
            {"FAKE_CUPTI_WHOLE_GRAPHS": "1"},
            ", which traces CUDA graphs at graph level",
        ),
    ],
)
def test_graphs_are_recorded_as_the_first_one_chose(share, asked, environment, told):
    folder = share("init", "launch", 1, cuda_graph=asked, environment=environment)
    assert texts(folder, logs.NOTE_SHARED) == [NAMED + told]
    collected = {one.collects & (16 | 512) for one in logs.found(folder, logs.COLLECTING)} - {0}
    assert collected == {16 if environment else 512}


def test_a_sampled_run_keeps_cupti_in_the_process(share, tmp_path):
    told = tmp_path / "told"
    share(
        *("init", "repeat", 700, "k1x20,k2,u1000"),
        environment={"FAKE_CUPTI_LOG": str(told)},
        mode=RangeMode.STEPS,
        sample_steps=5,
        sample_every=100,
        cuda_graph="node",
        cuda_detach_ms=20,
    )
    assert "on 10" in told.read_text()
    assert "finalize" not in told.read_text()


def test_the_fake_tells_what_harms_the_other(cuda, session):
    new = session(cuda=1, cupti_path=[cuda.cupti13_3])
    done = subprocess.run(
        cuda.command("init", "launch", 1, "version1", "launch", 2, "other", cupti=cuda.cupti13_3),
        env=cuda.environment(new, **SHARES),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "violation: cuptiActivityEnable\n"
    given, held, _, _ = map(int, done.stdout.split()[1:])
    assert given + held == 1


# ---- not shared


@pytest.mark.parametrize("name", ["cupti12", "cupti13", "cupti13_3"])
def test_a_profiler_that_comes_later_is_refused_until_the_end(run, cuda, name):
    words = ("init", "launch", 2, "subscribe", "launch", 3, "detach_cuda", "subscribe", "launch", 4)
    folder = run(*words, cupti=getattr(cuda, name))
    assert said(folder, "subscribed") == [[39], [0]]
    assert len(logs.found(folder, logs.KERNEL)) == 5
    assert [kind for kind, _ in logs.notes(folder)] == [logs.NOTE_USING]


def test_without_the_time_nothing_is_shared(share):
    folder = share("init", "launch", 1, environment={"FAKE_CUPTI_NO_TIME": "1"})
    assert not logs.found(folder, logs.KERNEL)
    assert texts(folder, logs.NOTE_OTHER_PROFILER) == [NAMED + ALONE]


@pytest.mark.parametrize(
    ("library", "environment", "told"),
    [
        ("cupti13_3", {"FAKE_CUPTI_SHARES": ""}, NAMED + HELD),
        ("cupti13_3", {"FAKE_DRIVER_VERSION": "13000"}, NAMED + HELD),
        ("cupti13", {"FAKE_CUPTI_VERSION": "130300"}, NAMED + HELD),
        ("cupti13", {"FAKE_CUPTI_VERSION": "130200"}, NAMED + HELD),
        ("cupti13", {}, NAMED + HELD),
        ("cupti13", {"FAKE_CUPTI_BUSY": "CUPTI for Kineto"}, f"Kineto (torch.profiler){HELD}"),
        ("cupti13", {"FAKE_CUPTI_BUSY": "Nsight Systems"}, f"Nsight Systems{HELD}"),
        ("cupti13", {"FAKE_CUPTI_BUSY": "CUPTI for "}, ANYONE + HELD),
        ("cupti13", {"FAKE_CUPTI_BUSY": ""}, ANYONE + HELD),
        ("cupti12", {}, ANYONE + HELD),
    ],
)
def test_who_holds_cupti_is_told(run, cuda, library, environment, told):
    both = {**SHARES, **environment}
    if not both["FAKE_CUPTI_SHARES"]:
        del both["FAKE_CUPTI_SHARES"]
        told = NAMED + ALONE
    folder = run("init", "launch", 2, cupti=getattr(cuda, library), environment=both)
    ((kind, text),) = logs.notes(folder)
    assert kind == logs.NOTE_OTHER_PROFILER
    assert text == told
    assert not logs.calls(folder)


def test_nsys_is_named_by_its_library(run, cuda, tmp_path):
    injection = tmp_path / "libToolsInjection64.so"
    injection.write_bytes(cuda.driver.read_bytes())
    environment = {"FAKE_CUPTI_BUSY": ""}
    folder = run(
        *("open", injection, "init", "launch", 1), cupti=cuda.cupti12, environment=environment
    )
    ((_, text),) = logs.notes(folder)
    assert text == "another profiler (probably nsys: its library is loaded)" + HELD


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_every_screen_says_it_first(cuda, tmp_path):
    output = tmp_path / "run.warpline"
    command = [sys.executable, "-m", "warpline", "profile", "-o", str(output), "-f", "true"]
    packages = tmp_path / "nvidia" / "cu13" / "lib"
    packages.mkdir(parents=True)
    library = packages / "libcupti.so.13"
    library.write_bytes(cuda.cupti13.read_bytes())
    command += ["-e", f"PYTHONPATH={tmp_path}", "-e", "FAKE_CUPTI_BUSY=CUPTI for Kineto", "--"]
    command += cuda.command("init", "launch", 2, cupti=library)

    def warpline_says(*words):
        done = subprocess.run([*words], check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    sentence = (
        "Kineto (torch.profiler) is using CUPTI, which supports one profiler with this CUDA and"
        " driver; stop it, or, "
    )
    says = warpline_says(*command)
    assert re.findall(r"warning: (.*)", says)[0].startswith(f"nothing was recorded: {sentence}")
    assert says.count(sentence) == 1
    base = [sys.executable, "-m", "warpline"]
    screen = warpline_says(*base, "summary", output)
    assert screen.split("\n\n")[1].startswith(f"device_sum: CUDA was not recorded: {sentence[:30]}")
    warnings = re.findall(r"warning: (.*)", screen)
    assert warnings[0].startswith(f"CUDA was not recorded: {sentence}")
    analysis = " ".join(warpline_says(*base, "analyze", output).split())
    assert "CUDA was not recorded" in analysis
    assert "stop it, or, if it can share CUPTI, update CUDA to 13.3" in analysis
