"""Calls of libraries: programs that use stand-ins of cuBLAS and cuDNN, recorded by the agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import raw_logs

import warpline
from warpline import native
from warpline.capture.session.agent_config import AgentConfig
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Profile = Callable[..., Trace]
BINDINGS = ("now", "lazy")
SHAPE = {
    "transa": "N",
    "transb": "T",
    "m": 64,
    "n": 32,
    "k": 16,
    "lda": 64,
    "ldb": 32,
    "ldc": 64,
    "type_a": "R_32F",
    "type_b": "R_32F",
    "type_c": "R_32F",
    "compute": "32F",
    "math": "TF32",
}


@pytest.fixture(scope="module")
def built(cuda: Any) -> Path:
    """The folder of the stand-ins."""
    folder: Path = cuda.program.parent
    if sys.platform != "linux" or not (folder / "library_app_now").exists():
        pytest.skip("the stand-ins are not built")
    return folder


@pytest.fixture
def profile(tmp_path: Path, built: Path) -> Profile:
    """Return a function that profiles the program and returns the recording; `calls` it counted."""

    def run(
        *words: object,
        trace: str = "cublas-verbose,cudnn",
        binding: str = "now",
        flags: tuple[str, ...] = (),
        program: tuple[object, ...] = (),
    ) -> Trace:
        output = tmp_path / "run.warpline"
        program = program or (built / f"library_app_{binding}", built / "libcuda.so.1")
        command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
        command += ["-o", str(output), "-t", trace, *flags, "--"]
        command += [*map(str, program), *map(str, words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return warpline.open(output)

    return run


def names(trace: Trace) -> Counter[str]:
    return Counter(trace["library_call"]["name"].to_list())


@pytest.mark.parametrize("binding", BINDINGS)
def test_calls_have_names_times_and_results(profile: Profile, binding: str) -> None:
    trace = profile("init", "gemm", 3, "cudnn", binding=binding)
    calls = trace["library_call"]
    assert names(trace) == {
        "cublasCreate_v2": 1,
        "cublasSgemm_v2": 3,
        "cudnnCreate": 1,
        "cudnnConvolutionForward": 1,
    }
    libraries = dict(calls.select("name", "library").rows())
    assert (libraries["cublasSgemm_v2"], libraries["cudnnCreate"]) == ("cuBLAS", "cuDNN")
    results = dict(calls.select("name", "return_value").rows())
    assert (results["cublasSgemm_v2"], results["cudnnConvolutionForward"]) == (0, 8)
    assert (calls["end_ns"] >= calls["start_ns"]).all()
    assert calls["start_ns"].to_list() == sorted(calls["start_ns"].to_list())
    assert trace.row_count("process") == 1


def symbols(trace: Trace, stack: int | None) -> list[tuple[str, int | None]]:
    """Return function and line of the frames of a stack, innermost first."""
    found = []
    while stack is not None:
        row = trace["stack"].row(stack, named=True)
        frame = trace["frame"].row(row["frame_id"], named=True)
        found.append((frame["symbol"], frame["line"]))
        stack = row["parent_id"]
    return found


def test_calls_have_backtraces_if_asked_for(profile: Profile) -> None:
    calls = profile("init", "nested", flags=("--library-backtrace-threshold=0",))
    of_call = dict(calls["library_call"]["name", "stack_id"].rows())
    outer = [name for name, _ in symbols(calls, of_call["cublasCallBack"])]
    inner = [name for name, _ in symbols(calls, of_call["cublasSgemm_v2"])]
    assert "main" in outer
    assert inner.index("cublasCallBack") < inner.index("main")
    assert profile("init", "nested")["library_call"]["stack_id"].null_count() == len(of_call)
    longer = profile("init", "nested", flags=("--library-backtrace-threshold=60000000000",))
    assert longer["library_call"]["stack_id"].null_count() == len(of_call)


def test_backtraces_have_the_lines_of_python(profile: Profile, built: Path, tmp_path: Path) -> None:
    script = tmp_path / "creates.py"
    script.write_text(
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1]).cuInit(0)\n"
        "library = ctypes.CDLL(sys.argv[2])\n\n\n"
        "def create():\n"
        "    library.cublasCreate_v2(ctypes.byref(ctypes.c_void_p()))\n\n\n"
        "create()\n"
    )
    program = (sys.executable, script, built / "libcuda.so.1", built / "libcublas.so.12")
    trace = profile(trace="cublas", flags=("--library-backtrace-threshold=0",), program=program)
    (call,) = trace["library_call"].iter_rows(named=True)
    # Native frames have lines where Python was compiled with -g.
    found = symbols(trace, call["stack_id"])
    lines = [pair for pair in found if pair in {("create", 7), ("<module>", 10)}]
    assert lines == [("create", 7), ("<module>", 10)]


def test_gemms_have_their_arguments(profile: Profile) -> None:
    calls = profile("init", "gemm", 2, "batched", "matmul")["library_call"]
    found = {name: json.loads(text or "null") for name, text in calls["name", "arguments"].rows()}
    assert found["cublasSgemm_v2"] == SHAPE
    assert found["cublasCreate_v2"] is None
    batched = found["cublasGemmStridedBatchedEx"]
    assert [batched[key] for key in ("transa", "m", "n", "k")] == ["T", 128, 256, 64]
    assert (batched["stride_a"], batched["stride_c"]) == (5_000_000_000, 32768)
    assert (batched["batch_count"], batched["type_a"], batched["compute"]) == (12, "R_16BF", "32F")
    matmul = found["cublasLtMatmul"]
    assert [matmul[key] for key in ("transa", "transb", "m", "n", "k")] == ["T", "N", 128, 256, 64]
    assert (matmul["batch_count"], matmul["type_a"], matmul["type_c"]) == (4, "R_16BF", "R_32F")
    assert matmul["stride_b"] == 16384


def test_arguments_only_if_asked_for(profile: Profile) -> None:
    trace = profile("init", "gemm", 1, "cudnn", trace="cublas")
    assert names(trace) == {"cublasCreate_v2": 1, "cublasSgemm_v2": 1}
    assert trace["library_call"]["arguments"].null_count() == 2


@pytest.mark.parametrize("binding", BINDINGS)
def test_calls_are_passed_on_unchanged(profile: Profile, binding: str) -> None:
    # The program checks what it gets; an exception leaves no call behind.
    trace = profile("init", "mixed", "nested", "throw", "mixed", binding=binding)
    assert names(trace) == {
        "cublasMixed": 2,
        "cublasCallBack": 1,
        "cublasCreate_v2": 1,
        "cublasSgemm_v2": 1,
    }


def test_functions_of_dlsym_and_of_modules_that_come_later(profile: Profile, built: Path) -> None:
    library, module = built / "libcublas.so.12", built / "libfake_library_user.so"
    trace = profile("init", "symbol", library, *(["module", module] * 3))
    assert names(trace) == {"cublasCreate_v2": 4}


def test_threads_and_forks(profile: Profile) -> None:
    trace = profile("init", "threads", 4, 50, "fork", "gemm", 1)
    assert names(trace) == {"cublasCreate_v2": 1, "cublasSgemm_v2": 1 + 200 + 1 + 1}
    processes = trace["library_call"].group_by("process_id").len()["len"].sort().to_list()
    assert processes == [1, 203]
    assert trace["library_call"]["thread_id"].n_unique() == 6


def test_mpi_is_recorded_without_cuda(profile: Profile) -> None:
    trace = profile("mpi", "gemm", 1, trace="mpi")
    assert names(trace) == {"MPI_Send": 1}
    assert trace["library_call"]["library"].to_list() == ["MPI"]


def test_a_runtime_of_openmp_tells_of_its_regions(profile: Profile) -> None:
    calls = profile("openmp", trace="openmp")["library_call"]
    assert set(calls["library"]) == {"OpenMP"}
    expected = ["Parallel", "Loop", "Critical wait", "Barrier", "Task"]
    assert calls["name"].to_list() == expected  # by start
    spans = {name: (start, end) for name, start, end in calls["name", "start_ns", "end_ns"].rows()}
    assert spans["Parallel"][1] >= spans["Barrier"][1] >= spans["Task"][1]
    assert spans["Loop"][1] >= spans["Critical wait"][1]
    assert calls["return_value"].null_count() == 5


IN_PROCESS = """
import ctypes, sys, warpline
library = ctypes.CDLL(sys.argv[1])
handle = ctypes.c_void_p()
with warpline.profile(sys.argv[2], trace="nvtx,cublas"):
    assert library.cublasCreate_v2(ctypes.byref(handle)) == 0
assert library.cublasCallBack(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None), None) == 0
"""


def test_from_within_a_program(tmp_path: Path, built: Path) -> None:
    output = tmp_path / "run.warpline"
    command = [sys.executable, "-c", IN_PROCESS, str(built / "libcublas.so.12"), str(output)]
    subprocess.run(command, check=True, timeout=60)
    assert names(warpline.open(output)) == {"cublasCreate_v2": 1}


def test_the_users_own_openmp_tool_is_the_first(tmp_path: Path) -> None:
    made = raw_logs.make_session(tmp_path / "run.raw", AgentConfig(collect=("openmp",)))
    variables = made.variables(Path("/agent.so"), {"OMP_TOOL_LIBRARIES": "/own.so"})
    assert variables["OMP_TOOL_LIBRARIES"] == "/own.so:/agent.so"


def test_the_libraries_own_calls_and_others_are_left_alone(built: Path) -> None:
    agent = built.parent.parent / "libwarpline_agent.so"
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", agent], check=True, capture_output=True, text=True
    ).stdout
    assert "dlsym" not in exported
    assert "cublas" not in exported
