"""--cudabacktrace, --python-backtrace: which calls are selected, in nsys's syntax."""

from __future__ import annotations

import pytest

from warpline.capture.flags.call_chains import DEFAULT_NS, parse_call_chains, parse_python_chains
from warpline.capture.flags.parsing import parse
from warpline.capture.session.agent_config import AgentConfig, CudaConfig
from warpline.errors import UsageError

EVERY = dict.fromkeys(("kernel", "memory", "sync", "other"), DEFAULT_NS)


@pytest.mark.parametrize(
    ("text", "chains"),
    [
        ("none", {}),
        ("false", {}),
        ("kernel", {"kernel": 80_000}),
        ("kernel:500", {"kernel": 500}),
        ("all", EVERY),
        ("true", EVERY),
        ("All:0, sync:7", {"kernel": 0, "memory": 0, "sync": 7, "other": 0}),
        ("kernel,none,memory:1", {"memory": 1}),
    ],
)
def test_kinds_and_their_least_durations(text, chains):
    assert parse_call_chains(text) == chains
    options = parse([f"--cudabacktrace={text}", "program"])
    assert options.cudabacktrace == chains
    assert options.warnings == []


@pytest.mark.parametrize("text", ["", "kernels", "kernel:", "kernel:-1", "none:5", "all:1us", ","])
def test_what_names_no_calls_is_refused(text):
    with pytest.raises(UsageError, match="cudabacktrace"):
        parse_call_chains(text)


@pytest.mark.parametrize(
    ("text", "chains"),
    [
        ("none", {}),
        ("cuda", dict.fromkeys(EVERY, 0)),
        ("true", dict.fromkeys(EVERY, 0)),
        ("kernel,sync:80000", {"kernel": 0, "sync": 80_000}),
        ("cuda:5,kernel", {"kernel": 0, "memory": 5, "sync": 5, "other": 5}),
    ],
)
def test_kinds_with_python_backtraces(text, chains):
    assert parse_python_chains(text) == chains
    options = parse([f"--python-backtrace={text}", "program"])
    assert options.python_backtrace == chains
    assert options.warnings == []


@pytest.mark.parametrize("text", ["", "osrt", "cuda:", "none:5"])
def test_what_names_no_calls_for_python_is_refused(text):
    with pytest.raises(UsageError, match=r"--python-backtrace: unknown kind"):
        parse_python_chains(text)


def test_the_agent_is_told():
    config = AgentConfig(
        cuda=CudaConfig(chains={"kernel": 0, "sync": 500}, python_chains={"memory": 7})
    )
    lines = config.text().splitlines()
    assert {"cuda_chains_kernel=0", "cuda_chains_sync=500"} <= set(lines)
    assert not any(line.startswith("cuda_chains_memory") for line in lines)
    assert [line for line in lines if "python" in line] == ["cuda_python_chains_memory=7"]


@pytest.mark.parametrize(
    ("words", "chains"),
    [
        (["--pytorch=functions-trace"], {"kernel": 0}),
        (["--pytorch=functions-trace-shapes", "--python-backtrace=sync"], {"sync": 0}),
        (["--python-backtrace=none", "--pytorch=functions-trace"], {}),
        (["--pytorch=all"], {}),
    ],
)
def test_operators_ask_for_the_python_stacks_of_launches(words, chains):
    assert parse([*words, "program"]).python_chains == chains
