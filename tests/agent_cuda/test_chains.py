"""Call chains: the backtraces of CUDA API calls."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from agent_cuda import cuda_logs as logs

import warpline
from warpline import native
from warpline.capture.finishing.finish import finish
from warpline.trace import Trace

pytestmark = [
    pytest.mark.skipif(native.core() is None, reason="needs the native core"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere frame pointers decide"),
]


def finished(folder: Path) -> Trace:
    output = folder.parent / "run.warpline"
    finish(folder, output)
    return warpline.open(output)


def chains_of(trace: Trace) -> dict[int, list[str]]:
    """Return the functions of each stack of a call, innermost first."""
    symbols, stacks = trace["frame"]["symbol"].to_list(), trace["stack"].rows()
    assert len(set(trace["frame"].rows())) == len(symbols)
    assert len({(parent, frame) for parent, frame, _ in stacks}) == len(stacks)
    found: dict[int, list[str]] = {}
    for stack in trace["api_call"]["stack_id"].drop_nulls().unique().to_list():
        row, functions = stack, []
        while row is not None:
            parent, frame, depth = stacks[row]
            assert depth == (0 if parent is None else stacks[parent][2] + 1)
            functions.append(symbols[frame])
            row = parent
        found[stack] = functions
    return found


def test_a_chain_leads_from_the_call_to_the_start_of_the_program(run, cuda):
    trace = finished(run("init", "launch", 3, "driver_launch", 1, cuda_chains_kernel=0))
    calls = trace["api_call"]
    chains = chains_of(trace)
    first, *_, last = called = calls["stack_id"].to_list()
    assert called == [first, first, first, last]
    assert first != last
    for functions in chains.values():
        assert functions.index("main") < functions.index("_start") == len(functions) - 1
    frames = trace["frame"]
    modules = set(frames["module"].to_list())
    assert str(cuda.program) in modules
    assert not any("libcupti" in name or "libwarpline" in name for name in modules)
    resolved = frames.filter(pl.col("module") == str(cuda.program))
    assert not resolved["is_unresolved"].any()
    assert frames["address"].null_count() == 0


def test_threads_have_chains_of_their_own(run):
    trace = finished(run("init", "threads", 3, 20, "launch", 1, cuda_chains_kernel=0))
    chains = chains_of(trace)
    assert len(chains) == 2  # the same in each of the threads, another one in main
    assert sorted("main" in functions for functions in chains.values()) == [False, True]
    counts = trace["api_call"]["stack_id"].value_counts().sort("count")["count"]
    assert counts.to_list() == [1, 60]


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"cuda_chains_kernel": 10**12}, set()),
        ({"cuda_chains_kernel": 0}, {"cudaLaunchKernel", "cudaGraphLaunch"}),
        ({"cuda_chains_sync": 0}, {"cudaStreamSynchronize"}),
        ({"cuda_chains_memory": 0}, {"cudaMalloc"}),
        ({"cuda_chains_other": 0}, {"cudaStreamBeginCapture"}),
        ({"cuda_chains_kernel": "-1", "cuda_chains_sync": "x"}, set()),
    ],
)
def test_only_the_calls_asked_for_have_chains(run, keys, names):
    words = [word for call in (24, 23, 25, 22) for word in ("call", call, 0)]
    folder = run("init", "launch", 1, *words, **keys)
    assert sum(logs.calls(folder).values()) == 5
    trace = finished(folder)
    with_chain = trace["api_call"].filter(pl.col("stack_id").is_not_null())
    assert {name.partition("_v")[0] for name in with_chain["name"].to_list()} == names
    assert trace.has("stack") == bool(names)


def test_a_file_that_was_replaced_names_nothing(run, cuda, tmp_path):
    program = tmp_path / "other_app"
    shutil.copy(cuda.program, program)
    shutil.copy(cuda.program, tmp_path / "kept")
    cuda.program = program
    try:
        folder = run("init", "launch", 1, cuda_chains_kernel=0)
    finally:
        cuda.program = cuda.driver.parent / "cuda_app"
    program.unlink()
    shutil.copy(os.path.realpath(sys.executable), program)
    frames = finished(folder)["frame"].filter(pl.col("module") == str(program))
    assert len(frames) >= 2
    assert frames["is_unresolved"].all()
    assert all(name.startswith("0x") for name in frames["symbol"].to_list())
    program.unlink()
    os.mkfifo(program)  # would keep a reader waiting
    again = finished(folder)["frame"].filter(pl.col("module") == str(program))
    assert again["is_unresolved"].all()


def test_modules_of_chains_are_known_once(run, cuda):
    folder = run(
        "init", "launch", 1, "open", cuda.cupti12_bare, "driver_launch", 1, cuda_chains_kernel=0
    )
    modules = logs.found(folder, logs.MODULE)
    paths = [module.path for module in modules]
    assert len(set(paths)) == len(paths)
    assert str(cuda.program) in paths
    chains = logs.found(folder, logs.CHAIN)
    assert len(chains) == 2
    for address in {address for chain in chains for address in chain.frames}:
        assert any(module.begin <= address < module.end for module in modules)


def test_what_the_agent_measures(cuda, tmp_path):
    code = (
        "import json, sys, pathlib; from warpline.capture.finishing.cost import measure\n"
        "print(json.dumps(measure(pathlib.Path(sys.argv[1]))))"
    )
    environment = {**os.environ, "WARPLINE_AGENT": str(cuda.agent)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    costs = json.loads(done.stdout)
    assert set(costs) == {"range", "mark", "api_call", "call_frame"}
    assert all(0.1 < cost < 100_000 for cost in costs.values())
    assert not list(tmp_path.iterdir())
