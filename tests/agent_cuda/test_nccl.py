"""Operations of NCCL, told by its profiler plug-in interface: nccl_host.c does what NCCL does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import native
from warpline.capture.machine.agent import agent_library
from warpline.capture.session.session import NCCL_VARIABLE
from warpline.errors import AgentMissingError
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Row = dict[str, Any]
Profile = Callable[..., tuple[str, Trace | None]]
NEWEST = 6  # that the plug-in knows
# What one round of the program tells, by name: count, type, bytes, peer or root.
ROUND = {
    "AllReduce": (1000, "bfloat16", 2000, None),
    "Broadcast": (64, "int8", 64, 1),
    "AllGather": (16, "float32", 64, None),
    "Send": (5, "float8e4m3", 5, 1),
    "Recv": (3, "uint64", 24, 1),
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program."""
    try:
        agent_library()
    except AgentMissingError as error:
        pytest.skip(str(error))
    program = tmp_path_factory.mktemp("nccl") / "nccl_host"
    source = Path(__file__).with_name("programs") / "nccl_host.c"
    build = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wextra", "-Werror", str(source)]
    subprocess.run([*build, "-o", str(program), "-ldl", "-pthread"], check=True)
    return program


@pytest.fixture
def profile(tmp_path: Path, host: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Return a function that profiles the program; it returns its output and the recording."""
    monkeypatch.delenv(NCCL_VARIABLE, raising=False)

    def run(*words: object, trace: str = "nccl", **more: str) -> tuple[str, Trace | None]:
        output = tmp_path / "run.warpline"
        command = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
        command += ["-o", str(output), "-t", trace, "--gpu-health=off", "--"]
        command += [str(host), *map(str, words)]
        environment = {**os.environ, **more}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, warpline.open(output) if output.exists() else None

    return run


def rows_of(trace: Trace | None) -> list[Row]:
    """Return the operations, in the order of time."""
    assert trace is not None
    assert not any(trace.meta.lost.values())
    return list(trace["nccl_op"].iter_rows(named=True))


@pytest.mark.parametrize("newest", [2, 3, 4, 5, 6, 9])
def test_each_version_tells_the_same(profile: Profile, newest: int) -> None:
    output, trace = profile(newest, "plain", 1)
    version = min(newest, NEWEST)
    assert output == f"version {version}\n"
    rows = rows_of(trace)
    copied = rows.pop() if version >= 6 else None
    told = {r["name"]: (r["count"], r["dtype"], r["bytes"], r["peer"]) for r in rows}
    assert told == ROUND
    assert [row["name"] for row in rows] == list(ROUND)
    for sequence, row in enumerate(rows):
        is_collective = row["name"] not in {"Send", "Recv"}
        assert row["communicator"] == "0xfedcba9876543210"
        assert (row["communicator_name"], row["rank"]) == ("pipeline", 3)
        assert (row["rank_count"], row["node_count"]) == ((8, 2) if version >= 4 else (None, None))
        assert row["sequence"] == (sequence if is_collective else None)
        chosen = (row["algorithm"], row["protocol"], row["channels"], row["warps"])
        if is_collective:
            assert chosen == ("TREE", "LL128", 24, 16)
        else:
            assert chosen == (None, None, 4 if version >= 4 else None, None)
    if copied is not None:
        assert (copied["name"], copied["bytes"], copied["algorithm"]) == ("AllGather", 4, "CE")
        assert (copied["sequence"], copied["protocol"], copied["peer"]) == (3, None, None)


@pytest.mark.parametrize("newest", [4, 5])
def test_operations_have_the_time_of_their_call(profile: Profile, newest: int) -> None:
    rows = rows_of(profile(newest, "plain", 3)[1])
    if newest == 4:
        assert {row["call_ns"] for row in rows} == {None}
        return
    calls = [row["call_ns"] for row in rows]
    assert calls == sorted({*calls})  # each has its own
    assert all(row["call_ns"] <= row["time_ns"] for row in rows)
    # Both of a group were called before either was told.
    broadcast, gather = (row for row in rows[:3] if row["name"] != "AllReduce")
    assert gather["call_ns"] <= broadcast["time_ns"]


def test_threads_lose_nothing(profile: Profile) -> None:
    rows = rows_of(profile(5, "threads", 1)[1])
    told = Counter((row["communicator"], row["rank"], row["name"]) for row in rows)
    ranks = [(f"0x{0x100 + rank:016x}", rank) for rank in range(4)]
    assert told == {(*rank, name): 250 for rank in ranks for name in ROUND}
    assert len({row["thread_id"] for row in rows}) == 4
    assert {row["rank_count"] for row in rows} == {4}


def test_forks_tell_their_own(profile: Profile) -> None:
    _, trace = profile(5, "fork", 1)
    rows = rows_of(trace)
    assert Counter(row["process_id"] for row in rows) == {0: 2 * len(ROUND), 1: len(ROUND)}
    child = [row["name"] for row in rows if row["process_id"] == 1]
    assert child == list(ROUND)


def test_an_older_interface_is_left_alone(profile: Profile) -> None:
    """NCCL 2.23 knows version 1 only, and finds none: it goes on without a plug-in."""
    output, trace = profile(1, "plain", 1)
    assert output == "version 0\n"
    assert trace is None or not trace.has("nccl_op")


def test_the_plugin_of_the_user_stays(profile: Profile) -> None:
    output, trace = profile(5, "plain", 1, trace="nvtx,nccl", **{NCCL_VARIABLE: ""})
    assert output == "version 0\n"
    assert trace is None or not trace.has("nccl_op")


def test_without_nccl_in_the_trace_nothing_is_asked_for(
    profile: Profile, host: Path, tmp_path: Path
) -> None:
    output, _ = profile(5, "plain", 1, trace="nvtx")
    assert output == "version 0\n"
    # Another session's plug-in, as a child's environment may have it.
    output, trace = profile(5, "plain", 1, trace="nvtx", **{NCCL_VARIABLE: str(agent_library())})
    assert output == "version 5\n"
    assert trace is None or not trace.has("nccl_op")


def test_without_a_session_the_plugin_does_nothing(host: Path) -> None:
    environment = {**os.environ, NCCL_VARIABLE: str(agent_library())}
    environment.pop("WARPLINE_SESSION", None)
    command = [str(host), "5", "plain", "2"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "version 5\n", "")
