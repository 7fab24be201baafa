"""``with warpline.profile(...)``: programs that record themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent.conftest import nvtx_include
from support import recording

import warpline

PROGRAMS = Path(__file__).parents[1] / "attach" / "programs"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs Python code in an empty folder."""
    recording.skip_unless_possible()

    def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        source = str(Path(warpline.__file__).parents[1])
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, **variables},
            timeout=60,
        )

    return run


def names(path: Path, table: str = "range") -> list[str]:
    return list(warpline.open(path)[table]["name"])


def test_a_block_is_recorded_from_the_first_annotation_to_the_last(run, tmp_path):
    done = run("""
import os, sys
before = dict(os.environ)
import warpline

@warpline.annotate
def step():
    with warpline.annotate("inner", domain="mine"): pass

step()                                 # a warm-up, not recorded
with warpline.profile("run") as run:
    step()
    warpline.mark("instant")
step()
assert dict(os.environ) == before, "the environment is as it was"
assert run.path.name == "run.warpline" and run.finished["ranges"] == 2
print([row["name"] for row in run.trace["range"].to_dicts()], run)
""")
    assert done.stderr == ""
    assert done.stdout.startswith("['step', 'inner'] <warpline.profile /")
    assert [path.name for path in tmp_path.iterdir()] == ["run.warpline"]
    trace = warpline.open(tmp_path / "run.warpline")
    assert trace.meta.warnings == ()
    assert trace["range"]["domain"].to_list() == [None, "mine"]
    assert names(tmp_path / "run.warpline", "mark") == ["instant"]


def test_neither_numpy_nor_polars_enters_the_program(run):
    done = run("""
import sys, warpline
with warpline.profile("run"):
    pass
print(sorted({"numpy", "polars", "nvtx"} & set(sys.modules)))
with warpline.profile("run", overwrite=True) as run:
    with warpline.annotate("x"): pass    # nvtx may import numpy
print("polars" in sys.modules, run.finished["ranges"])
""")
    assert done.stdout == "[]\nFalse 1\n"
    assert done.stderr.startswith("<string>:3: RuntimeWarning: run.warpline contains no events")


def test_profiles_follow_each_other_and_do_not_nest(run, tmp_path):
    done = run("""
import warpline
run = warpline.profile()
for name in ("one", "two"):
    run.start()
    with warpline.annotate(name, domain=name): pass
    try: warpline.profile("other").start()
    except warpline.CaptureError as error: print(error.message.split(":")[0], error.hint)
    run.stop()
    run.stop()                         # once more changes nothing
print(run.path.name)
""")
    assert done.stderr == ""
    told = "a profile is already running call its stop() before starting another"
    assert done.stdout.splitlines() == [told, told, "report2.warpline"]
    assert names(tmp_path / "report1.warpline") == ["one"]
    assert names(tmp_path / "report2.warpline") == ["two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report1.warpline",
        "report2.warpline",
    ]


def test_child_processes_and_forks_are_recorded(run, tmp_path):
    done = run("""
import os, subprocess, sys, warpline
with warpline.profile("run"):
    with warpline.annotate("parent"):
        code = "import warpline\\nwith warpline.annotate('child'): pass"
        subprocess.run([sys.executable, "-c", code], check=True)
        pid = os.fork()
        if pid == 0:
            with warpline.annotate("fork"): pass
        else:
            os.waitpid(pid, 0)
print("both leave the block")
""")
    assert done.stdout == "both leave the block\n" * 2
    assert (done.stderr, done.returncode) == ("", 0)
    trace = warpline.open(tmp_path / "run.warpline")
    rows = trace["range"].sort("start_ns")
    assert rows["name"].to_list() == ["parent", "child", "fork"]
    assert rows["process_id"].n_unique() == 3


def test_an_error_of_the_program_passes_and_the_recording_is_made(run, tmp_path):
    done = run("""
import warpline
with warpline.profile("run"):
    warpline.mark("before")
    raise KeyError("the program's own")
""")
    assert done.returncode == 1
    assert done.stderr.endswith('KeyError: "the program\'s own"\n')
    assert names(tmp_path / "run.warpline", "mark") == ["before"]


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "1 / 0"])
def test_what_is_left_running_is_finished_at_exit(run, tmp_path, ending):
    done = run(f"""
import warpline
warpline.profile("run").start()
warpline.mark("x")
{ending}
""")
    assert done.returncode == {"p": 0, "r": 3, "1": 1}[ending[0]]
    assert names(tmp_path / "run.warpline", "mark") == ["x"]


def test_a_program_that_is_killed_leaves_a_session_to_recover(run, tmp_path):
    done = run("""
import os, signal, warpline
warpline.profile("run").start()
warpline.mark("x")
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert done.returncode == -signal.SIGKILL
    (folder,) = tmp_path.iterdir()
    facts = json.loads((folder / "session.json").read_text())
    assert facts["output"] == str(tmp_path / "run.warpline")
    assert "ended_monotonic_ns" not in facts
    assert list(folder.glob("*.wlraw"))


def test_nvtx_that_was_used_before_is_named(run, tmp_path):
    done = run("""
import nvtx, warpline
nvtx.mark("too early")
for attempt in range(2):
    with warpline.profile("run%n"):
        nvtx.mark("lost")
""")
    told = "nvtx called NVTX before profiling started: its ranges are not recorded"
    assert done.stderr.count(f"<string>:5: RuntimeWarning: {told}") == 1
    for number in (1, 2):
        trace = warpline.open(tmp_path / f"run{number}.warpline")
        assert len(trace["mark"]) == 0
        assert any(told in warning for warning in trace.meta.warnings)


def test_nvtx_that_was_only_imported_is_recorded(run, tmp_path):
    done = run("""
import nvtx, warpline
for name in ("one", "two"):
    with warpline.profile(name):
        nvtx.mark(name)
        nvtx.mark(name, domain=name)
    nvtx.mark("between", domain="between")
    with warpline.annotate("between"): pass
with warpline.profile("three"):
    nvtx.mark("three", domain="between")
""")
    assert done.stderr == ""
    assert names(tmp_path / "one.warpline", "mark") == ["one", "one"]
    assert names(tmp_path / "two.warpline", "mark") == ["two", "two"]
    assert names(tmp_path / "three.warpline", "mark") == ["three"]


def test_threads_that_are_always_annotated_fall_into_every_profile(run, tmp_path):
    done = run("""
import threading, time, warpline
over = threading.Event()
def work():
    while not over.is_set():
        with warpline.annotate("outer", domain="d"):
            with warpline.annotate("inner"): pass
            warpline.end_range(warpline.start_range("s"))
            time.sleep(0.0005)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for number in range(6):
    with warpline.profile(f"run{number}") as run: time.sleep(0.1)
    print(run.finished["ranges"] > 30, run.finished["lost"], run.finished["truncated"] <= 9)
over.set()
""")
    assert done.stderr == ""
    assert done.stdout == "True 0 True\n" * 6


def test_a_profile_that_ends_while_nvtx_is_loaded_leaves_it_whole(run, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'nvtx.nvtx': time.sleep(0.3)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    done = run("""
import slow, threading, time, warpline
def late():
    import nvtx
    nvtx.mark("late")
thread = threading.Thread(target=late)
with warpline.profile("one"):
    thread.start()
    time.sleep(0.05)
thread.join()
with warpline.profile("two"):
    late()
""")
    assert "nvtx was used before" not in done.stderr
    assert names(tmp_path / "two.warpline", "mark") == ["late"]


def test_libraries_that_looked_for_a_profiler_before_are_recorded(run, tmp_path):
    include = nvtx_include()
    if include is None or shutil.which("cc") is None:
        pytest.skip("no compiler, or no headers of NVTX: pip install nvidia-nvtx")
    source = str(PROGRAMS / "nvtx_user.c")
    for name in ("early.so", "late.so"):
        command = ["cc", "-shared", "-fPIC", f"-isystem{include}", source, "-o", name, "-ldl"]
        subprocess.run(command, check=True, cwd=tmp_path)
    done = run("""
import ctypes, warpline
early = ctypes.CDLL("./early.so")
early.use(b"before")
for number in (1, 2):
    with warpline.profile(f"run{number}"):
        early.use(b"early")
        late = ctypes.CDLL("./late.so")
        late.use(b"late")
    early.use(b"between")
    late.use(b"between")
""")
    assert done.stderr == ""
    for number in (1, 2):
        assert names(tmp_path / f"run{number}.warpline") == ["early", "late"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("nvtx_domain_include=['a']", ["a"]),
        ("nvtx_domain_include=['default']", [None]),
        ("nvtx_domain_exclude=['a']", ["b", None]),
    ],
)
def test_domains_are_chosen(run, tmp_path, choice, expected):
    run(f"""
import warpline
with warpline.profile("run", {choice}):
    for domain in ("a", "b", None): warpline.mark("m", domain=domain)
""")
    assert warpline.open(tmp_path / "run.warpline")["mark"]["domain"].to_list() == expected


def test_the_domains_of_one_profile_do_not_bind_the_next(run, tmp_path):
    run("""
import nvtx, warpline
def mark():
    for domain in ("a", "b", None):
        warpline.mark("ours", domain=domain)
        nvtx.mark("its", domain=domain)
with warpline.profile("one", nvtx_domain_include=["a"]): mark()
with warpline.profile("two", nvtx_domain_exclude=["a"]): mark()
""")
    one = warpline.open(tmp_path / "one.warpline")["mark"]["domain"].to_list()
    two = warpline.open(tmp_path / "two.warpline")["mark"]["domain"].to_list()
    assert (one, two) == (["a"] * 2, ["b"] * 2 + [None] * 2)


def test_a_recording_is_replaced_only_when_asked(run, tmp_path):
    (tmp_path / "run.warpline").write_bytes(b"precious")
    done = run("""
import warpline
try: warpline.profile("run").start()
except warpline.UsageError as error: print(error.message, "|", error.hint)
with warpline.annotate("x"): pass
with warpline.profile("run", overwrite=True): warpline.mark("new")
""")
    assert "run.warpline already exists | pass overwrite=True" in done.stdout
    assert names(tmp_path / "run.warpline", "mark") == ["new"]


def test_versions_of_what_is_loaded_are_recorded(run, tmp_path):
    package = tmp_path / "site-packages" / "torch"
    package.mkdir(parents=True)
    (tmp_path / "site-packages" / "torch-9.8.7.dist-info").mkdir()
    (package / "libtorch.so").write_bytes(bytes(4096))
    done = run("""
import mmap, warpline
with warpline.profile("run.warpline"), open("site-packages/torch/libtorch.so", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
    with warpline.annotate("step"): pass
""")
    assert done.stderr == ""
    assert warpline.open(tmp_path / "run.warpline").meta.software["PyTorch"] == "9.8.7"


def test_secrets_are_not_kept(run, tmp_path):
    code = 'import warpline\nwith warpline.profile("run"): pass'
    run(code, HF_TOKEN="hf_abcdefgh", NCCL_DEBUG="INFO")
    run(code.replace('"run"', '"all", keep_environment=True'), HF_TOKEN="hf_abcdefgh")
    assert b"hf_abcdefgh" not in (tmp_path / "run.warpline").read_bytes()
    assert b"NCCL_DEBUG" in (tmp_path / "run.warpline").read_bytes()
    assert b"hf_abcdefgh" in (tmp_path / "all.warpline").read_bytes()


@pytest.mark.parametrize("keep", [False, True])
def test_the_command_is_kept_when_asked_for(run, tmp_path, keep):
    run(f'import warpline\nwith warpline.profile("run", keep_command={keep}): pass')
    command = warpline.open(tmp_path / "run.warpline").meta.command or ""
    assert ("warpline.profile" in command) is keep  # the text of the program
    assert keep or command.endswith(" -c ***")


def test_what_cannot_be_recorded_is_said(run):
    done = run("""
import warnings, warpline
warpline.profile(trace="cuda,nvtx")    # the default says nothing
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warpline.profile(trace=["nvtx", "osrt"])
print([str(warning.message) for warning in caught])
try: warpline.profile(trace="nvtxx")
except warpline.UsageError as error: print(error)
""")
    assert done.stderr == ""
    told, refused = done.stdout.splitlines()
    assert "osrt is not recorded" in told
    assert refused == "trace='nvtxx': unknown API"


@pytest.mark.parametrize(
    ("agent", "told"),
    [("nowhere.so", "no such file"), (__file__, "cannot load")],
)
def test_an_agent_that_is_not_there_is_an_error(run, tmp_path, agent, told):
    done = run('import warpline\nwarpline.profile("run").start()', WARPLINE_AGENT=agent)
    assert "AgentMissingError: " in done.stderr
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error(run, tmp_path):
    done = run('import warpline\nwarpline.profile("no/such/folder/run").start()')
    assert "CaptureError: " in done.stderr
    assert "WARPLINE_SESSION" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_in_a_recorded_program_the_profile_is_a_range_of_it(run, tmp_path):
    done = run("""
import subprocess, sys, warpline
code = '''
import warpline
with warpline.profile("inside") as run:
    with warpline.annotate("x"): pass
print(run.path, run.finished)
'''
with warpline.profile("outside"):
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
""")
    assert "this program is already being recorded; adding inside as a range" in done.stdout
    assert "None {}" in done.stdout
    rows = warpline.open(tmp_path / "outside.warpline")["range"]
    assert rows["name"].to_list() == ["inside", "x"]
    assert rows["domain"].to_list() == ["warpline", None]
    assert [path.name for path in tmp_path.iterdir()] == ["outside.warpline"]


def test_a_program_that_outlives_its_session_can_begin_its_own(run, tmp_path):
    done = run("""
import os, warpline
run = warpline.profile("parent")
run.start()
warpline.mark("both")
read, write = os.pipe()
if os.fork() == 0:
    os.read(read, 1)                   # until the parent's recording is finished
    with warpline.profile("child"): warpline.mark("later")
else:
    run.stop()
    os.write(write, b"x")
    os.wait()
""")
    assert done.stderr == ""
    assert names(tmp_path / "parent.warpline", "mark") == ["both"]
    assert names(tmp_path / "child.warpline", "mark") == ["later"]


def test_a_recording_that_cannot_be_finished_is_told_with_the_way_out(run, tmp_path):
    done = run("""
import warpline
run = warpline.profile("run")
run.start()
warpline.mark("x")
run.path.mkdir()                       # in the way of the recording
(run.path / "file").touch()
try: run.stop()
except warpline.CaptureError as error: print(error.hint)
""")
    assert "warpline recover" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.raw"))) == 1


def test_allocations_are_recorded_on_request():
    for wanted in (False, True):
        cuda = warpline.profile(cuda_memory_usage=wanted)._config.cuda
        assert cuda is not None
        assert ("cuda_memory", str(int(wanted))) in cuda.pairs()
