"""``--on-finish`` and ``--max-size``: what is run with a recording, and when recording stops."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.launching import end, names, needs_agent, profile, python, start

import warpline
from warpline.capture.flags import parsing
from warpline.capture.flags.finish_command import words_of
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.on_finish import run
from warpline.capture.launcher.size_limit import DEFAULT_BYTES, disk_bytes, size_limit
from warpline.errors import UsageError

# Ranges until recording has stopped, and one more.
MANY_RANGES = """
import nvtx, os, pathlib, time
session = pathlib.Path(os.environ["WARPLINE_SESSION"]) / "session.json"
for _ in range(60_000):
    nvtx.push_range("r"); nvtx.pop_range()
while '"stopped_by"' not in session.read_text():
    nvtx.push_range("r"); nvtx.pop_range()
    time.sleep(0.01)
nvtx.push_range("end"); nvtx.pop_range()
print("went on", flush=True)
raise SystemExit(5)
"""


# --- The command ---------------------------------------------------------------------------------


def test_the_recording_is_in_the_place_of_the_braces_or_last() -> None:
    output = Path("/runs/a b.warpline")
    assert words_of("rsync -a {} store:runs/", output) == [
        "rsync",
        "-a",
        str(output),
        "store:runs/",
    ]
    assert words_of("aws s3 cp", output) == ["aws", "s3", "cp", str(output)]
    assert words_of("sh -c 'cp {} /x'", output) == ["sh", "-c", f"cp {output} /x"]
    for wrong in ('"', "", "  "):
        with pytest.raises(UsageError, match="--on-finish"):
            words_of(wrong, output)


def test_failures_are_warnings(tmp_path: Path) -> None:
    output = tmp_path / "run.warpline"
    output.write_bytes(b"x")
    said: list[str] = []
    run(f"cp {{}} {tmp_path}/copy", output, said.append)
    assert (tmp_path / "copy").read_bytes() == b"x"
    assert said == []
    run("false", output, said.append)
    run("no-such-command-here", output, said.append)
    run("sh -c 'kill -9 $$'", output, said.append)
    assert [text.split(";")[0].removeprefix("--on-finish: ") for text in said] == [
        "false failed (1)",
        "no-such-command-here cannot be run: No such file or directory",
        "sh was killed by SIGKILL",
    ]
    assert all(str(output) in text for text in said)


def test_without_a_recording_nothing_is_run(tmp_path: Path) -> None:
    run(f"touch {tmp_path}/ran", tmp_path / "missing.warpline", pytest.fail)
    run(None, tmp_path, pytest.fail)
    assert not (tmp_path / "ran").exists()


# --- The limit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({}, None),
        ({"WORLD_SIZE": "8", "RANK": "0"}, None),
        ({"WORLD_SIZE": "9", "RANK": "0"}, 9),
        ({"SLURM_STEP_NUM_TASKS": "64", "SLURM_PROCID": "3"}, 64),
        ({"SLURM_NTASKS": "64"}, None),  # also set in a batch script, which is one process
        ({"OMPI_COMM_WORLD_SIZE": "16"}, 16),
        ({"PMI_SIZE": "16"}, 16),
        ({"WORLD_SIZE": "many"}, None),
    ],
)
def test_jobs_of_many_ranks_are_limited(variables: dict[str, str], ranks: int | None) -> None:
    limit = size_limit(CaptureSettings(), variables)
    assert (None if limit is None else limit.ranks) == ranks
    if limit is not None:
        assert limit.bytes == DEFAULT_BYTES
        assert limit.is_told == (variables.get("SLURM_PROCID") != "3")


def test_flags_about_the_limit() -> None:
    many = {"WORLD_SIZE": "64", "RANK": "1"}

    def limit(line: str) -> int | None:
        found = size_limit(parsing.parse([*line.split(), "a.py"]), many)
        return None if found is None else found.bytes

    assert limit("--max-size=none") is None
    assert limit("--max-size=1.5G") == 3 << 29
    assert limit("--max-size 200MB") == 200 << 20
    assert limit("--keep-last=30s") is None
    assert limit("--steps 5 --every 100") == DEFAULT_BYTES
    for wrong in ("5", "500K", "1X", "-1G", "G", "9999999T"):
        with pytest.raises(UsageError, match="--max-size"):
            limit(f"--max-size={wrong}")


def test_the_size_of_a_directory_is_what_it_takes_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"x" * 100_000)
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 30)
    os.sync()
    assert 100_000 <= disk_bytes(tmp_path) < 300_000
    assert disk_bytes(tmp_path / "missing") == 0


def test_recording_stops_at_the_limit_and_the_command_runs(tmp_path: Path) -> None:
    needs_agent()
    words = ["--no-summary", "-t", "nvtx", "--max-size=1M", "-o", "run"]
    copied = ["--on-finish", "cp {} copied", *python(tmp_path, MANY_RANGES)]
    ended = profile(tmp_path, *words, *copied)
    assert (ended.status, ended.out) == (5, "went on\n")
    assert "recording stopped at 1.00 MiB of events (--max-size); the program went on" in ended.err
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "run.warpline").read_bytes()
    recorded = names(tmp_path / "run.warpline")
    assert len(recorded) > 10_000  # logs grow by doubling: half of the size may be unused
    assert "end" not in recorded
    assert any(
        "--max-size" in text for text in warpline.open(tmp_path / "run.warpline").meta.warnings
    )


@pytest.mark.slow
def test_eight_ranks_that_start_at_different_times_record_the_same_steps(tmp_path: Path) -> None:
    needs_agent()
    program = """
import nvtx, time
for number in range(42):
    with nvtx.annotate(f"step_{number}"):
        time.sleep(0.01)
"""
    words = ["-q", "-t", "nvtx", "--steps", "2", "--every", "10", "-o", "run.%q{RANK}"]
    command = python(tmp_path, program)
    started = []
    for rank in range(8):
        ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "8"}
        started.append(start(tmp_path, [*words, *command], more=ranks))
        time.sleep(0.2)  # that they are in different steps
    assert [end(one).status for one in started] == [0] * 8
    wanted = [f"step_{at + more}" for at in range(0, 42, 10) for more in (0, 1)]
    for rank in range(8):
        assert names(tmp_path / f"run.{rank}.warpline") == wanted
