"""Python backtraces of CUDA API calls, beside those that the program itself writes down."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_cuda import cuda_logs as logs
from agent_cuda.conftest import FakeCuda
from agent_cuda.pythons import VERSIONS, interpreter
from support.backtraces import backtraces

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.capture.session.session import Session
from warpline.derived.python_stacks import python_stacks
from warpline.trace import Trace

pytestmark = [
    pytest.mark.skipif(native.core() is None, reason="needs the native core"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="layouts were made on x86-64"),
]

PROGRAM = Path(__file__).parent / "programs" / "python_stacks.py"
MOST_FRAMES = 128
CASES = (
    *("nested", "generated", "through_c", "asynchronous", "exceptional", "deep", "threads"),
    "long_lines",
)
ALL_KINDS = {f"cuda_python_chains_{kind}": 0 for kind in ("kernel", "memory", "sync", "other")}


@pytest.fixture
def program(cuda: FakeCuda, session: Callable[..., Session], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that records the program and returns the session's folder."""

    def run(
        *cases: str, python: str = sys.executable, preload: Path | None = None, **keys: object
    ) -> Path:
        new = session(cuda=1, cupti_path=[cuda.cupti13], **{**ALL_KINDS, **keys})
        words = [python, "-W", "ignore", str(PROGRAM), str(cuda.driver), str(cuda.cupti13)]
        words += [str(tmp_path / "ledger"), *cases]
        environment = {**cuda.environment(new), "PYTHONPATH": ""}
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        done = subprocess.run(
            words, env=environment, check=False, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
        return new.folder

    return run


def finished(folder: Path) -> Trace:
    output = folder.parent / "run.warpline"
    finish(folder, output)
    return warpline.open(output)


Frames = list[tuple[str, str, int]]  # name, file, line


def ledger(path: Path) -> dict[int, Frames]:
    written = json.loads(path.read_text(encoding="utf-8"))
    return {int(number): [tuple(frame) for frame in frames] for number, frames in written.items()}


def python_frames(trace: Trace, of_process: int = 0) -> dict[int, Frames]:
    """Return the Python frames of each call of a process by its correlation id."""
    columns = ("symbol", "module", "line", "kind")
    calls = trace["api_call"]
    threads = trace["thread"]["process_id"].to_list()
    found: dict[int, Frames] = {}
    ids = zip(calls["correlation_id"].to_list(), calls["thread_id"].to_list(), strict=True)
    for (number, thread), frames in zip(ids, backtraces(trace, "api_call", columns), strict=True):
        if frames is not None and threads[thread] == of_process:
            python = [frame for frame in frames if frame[3] == "Python"]
            found[number] = [(name, file, line) for name, file, line, _ in python]
    return found


def assert_equal(found: dict[int, Frames], expected: dict[int, Frames]) -> None:
    assert len(expected) > 0
    assert found.keys() == expected.keys()
    for number, frames in expected.items():
        assert found[number] == frames[:MOST_FRAMES]


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_are_those_that_python_has(program, tmp_path, version):
    trace = finished(program(*CASES, python=interpreter(version)))
    assert (trace.meta.warnings, trace.meta.lost) == ((), {})
    assert_equal(python_frames(trace), ledger(tmp_path / "ledger"))


@pytest.mark.parametrize("version", VERSIONS)
def test_native_frames_lie_between_those_of_python(program, tmp_path, version):
    """Python over C over Python over C: the interpreter's own frames are replaced."""
    trace = finished(
        program("nested", "through_c", python=interpreter(version), cuda_chains_sync=0)
    )
    assert_equal(python_frames(trace), ledger(tmp_path / "ledger"))
    between = set()
    for stack in backtraces(trace, "api_call", ("symbol", "kind")):
        frames = stack or []
        names, kinds = zip(*frames, strict=True)
        assert kinds[0] == "Native"
        assert not any(name.startswith("_PyEval_EvalFrame") for name in names)
        assert names[-1] == "_start"
        inner, outer = kinds.index("Python"), len(kinds) - 1 - kinds[::-1].index("Python")
        assert names[outer] == "<module>"
        # Functions that were inlined into it come first.
        assert any(name.endswith("PyEval_EvalCode") for name in names[outer + 1 : outer + 4])
        between |= {name for name, kind in frames[inner:outer] if kind == "Native"}
    assert any("Vectorcall" in name or "Call" in name for name in between)


def test_the_flag_of_the_command_line(cuda, tmp_path):
    library = tmp_path / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    library.parent.mkdir(parents=True)
    shutil.copy(cuda.cupti13, library)
    output = tmp_path / "run.warpline"
    command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-o", output]
    command += ["--python-backtrace=sync", "-e", f"PYTHONPATH={tmp_path / 'packages'}", "--"]
    command += [sys.executable, PROGRAM, cuda.driver, library, tmp_path / "ledger", "nested"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert_equal(python_frames(warpline.open(output)), ledger(tmp_path / "ledger"))


def test_frames_say_where_they_come_from(program):
    trace = finished(program("nested", cuda_chains_sync=0))
    frames = trace["frame"]
    is_python = frames["kind"] == "Python"
    python, others = frames.filter(is_python), frames.filter(~is_python)
    assert python["line"].null_count() == 0
    assert python["address"].null_count() == len(python)
    assert not python["is_unresolved"].any()
    assert set(python["module"].to_list()) == {str(PROGRAM)}
    assert python["file"].null_count() == len(python)
    assert len(others) > 0
    assert (others["line"].is_null() == others["file"].is_null()).all()
    assert others["address"].null_count() == 0


@pytest.mark.parametrize("cuda_chains_sync", [-1, 0])
def test_stacks_as_text(program, tmp_path, cuda_chains_sync):
    trace = finished(program("nested", "through_c", cuda_chains_sync=cuda_chains_sync))
    codes, texts = python_stacks(trace)
    ids = trace["api_call"]["correlation_id"].to_list()
    written = ledger(tmp_path / "ledger")
    expected = {
        number: "\n".join(f"{file}:{line} {name}" for name, file, line in frames)
        for number, frames in written.items()
    }
    found = zip(ids, codes.tolist(), strict=True)
    assert {number: texts[code] for number, code in found} == expected
    assert len(texts) == len(set(texts))


def test_what_a_log_has(program):
    """Chains are once per log and code once per process; all code of chains is defined."""
    folder = program("nested", "threads")
    code = logs.found(folder, logs.PYTHON_CODE)
    numbers = [each.number for each in code]
    assert {"nested", "call", "<module>"} <= {each.name.rpartition(".")[2] for each in code}
    assert {each.file for each in code} >= {str(PROGRAM)}
    chains = logs.found(folder, logs.PYTHON_CHAIN)
    assert {number for chain in chains for number in chain.frames[::2]} <= set(numbers)


def test_calls_without_python_frames_have_no_text(run):
    trace = finished(run("init", "launch", 3, cuda_chains_kernel=0, **ALL_KINDS))
    codes, texts = python_stacks(trace)
    assert codes.tolist() == [-1] * 3
    assert not texts
    assert not trace.meta.warnings  # a program without Python is nothing to warn of
    without = finished(run("init", "launch", 2))
    assert python_stacks(without).codes.tolist() == [-1] * 2


@pytest.mark.parametrize("claimed", ["3.8", "3.10", "3.12", "3.13", "3.15", "4.0"])
@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_a_python_that_is_not_as_expected_is_left_alone(program, tmp_path, version, claimed):
    """With the layout of another version, no walk is made and nothing faults."""
    if {version, claimed} == {"3.9", "3.10"}:
        pytest.skip("they differ in the number of the instruction only")
    source, library = tmp_path / "version.c", tmp_path / "version.so"
    source.write_text(f'const char *Py_GetVersion(void) {{ return "{claimed}.0 (main, date)"; }}')
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    folder = program("nested", "threads", python=interpreter(version), preload=library)
    trace = finished(folder)
    assert not trace.has("frame")
    assert len(trace["api_call"]) == len(ledger(tmp_path / "ledger"))
    (warning,) = trace.meta.warnings
    expected = (
        "only Python 3.9 to 3.15 are supported"
        if claimed in {"3.8", "4.0"}
        else "this build of Python is not known"
    )
    assert warning == f"Python backtraces are not recorded: {expected}"


@pytest.mark.parametrize("version", VERSIONS)
def test_forks_and_the_end_of_python(program, tmp_path, version):
    folder = program("forked", "daemons", python=interpreter(version))
    trace = finished(folder)
    assert len(trace["process"]) == 2
    for process, name in enumerate(("ledger", "ledger.child")):
        expected, found = ledger(tmp_path / name), python_frames(trace, process)
        assert expected
        assert {number: found[number] for number in expected} == expected
