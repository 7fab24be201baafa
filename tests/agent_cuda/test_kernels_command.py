"""``warpline kernels`` of a program that uses the fake CUDA: from the flags to the page."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from agent_cuda.kernels_command import Kernels, kernels_command
from support.launching import Ended

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

METRICS = "sm__inst_executed.sum,sm__warps_active.avg"
TWO_PASSES = "sm__inst_executed.sum,sm__inst_issued.sum,sm__warps_active.sum"


@pytest.fixture
def kernels(tmp_path: Path, cuda: Any) -> Kernels:
    """Return a function that counts the kernels of the fake program with flags."""

    def run(*words: object, flags: tuple[str, ...] = (), version: int = 130001) -> Ended:
        return kernels_command(tmp_path, cuda, words, flags, version=version)

    return run


def test_a_summary_of_kernels_and_shapes(kernels: Kernels, tmp_path: Path) -> None:
    found = kernels("repeat", 4, "k7g64x3,k8g3", "exit", 3)
    assert found.status == 3
    lines = found.out.splitlines()
    assert any(line.startswith("64 ") and line.endswith("kernel7") for line in lines)
    assert any(line.startswith("3 ") and line.endswith("kernel8") for line in lines)
    assert found.err == (
        "note: counted 4 launches on GH100: 1 metric, 1 pass, at most 5 of each kernel and shape,"
        " in at most 5% of the run time\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages"]


def test_raw_values_of_chosen_launches(kernels: Kernels) -> None:
    flags = ("--metrics", METRICS, "-k", "kernel8", "-s", "1", "-c", "2", "--page", "raw", "--csv")
    found = kernels("repeat", 4, "k7g64,k8g3", flags=(*flags, "--print-units", "base"))
    header, units, *rows = csv.reader(io.StringIO(found.out))
    place = header.index("sm__inst_executed.sum")
    assert units[place] == "inst"
    # The fake's rule: 1000 * length of the name + grid + number of the kernel / 64.
    assert [float(row[place]) for row in rows] == [21003.125, 21003.125]


def test_attributes_of_the_gpu_by_name(kernels: Kernels) -> None:
    metrics = f"{METRICS},device__attribute_max_block_dim_x"
    found = kernels("repeat", 2, "k7", flags=("--metrics", metrics, "--page", "raw", "--csv"))
    header, _, *rows = csv.reader(io.StringIO(found.out))
    assert len(rows) == 2
    place = header.index("device__attribute_max_block_dim_x")
    assert {row[place] for row in rows} == {"-2"}, "the fake's rule: its number below zero"
    assert sum(name.startswith("device__") for name in header) == 1
    assert "not counted" not in found.err


def test_only_between_start_and_stop_and_kept(kernels: Kernels, tmp_path: Path) -> None:
    words = ("repeat", 2, "k9", "start", "repeat", 1, "k7,k8", "stop", "repeat", 2, "k9")
    flags = ("--profile-from-start", "off", "--metrics", TWO_PASSES, "-o", "x", "--json")
    found = kernels(*words, flags=flags)
    first, second = json.loads(found.out)["kernels"]
    assert (first["name"], second["name"]) == ("kernel7(float *)", "kernel8(float *)")
    assert first["metrics"]["sm__inst_issued.sum"] == 19001 + 7 / 64
    assert found.err.endswith("note: wrote x.warpline\n")
    assert "counted 2 launches" in found.err
    assert (tmp_path / "x.warpline").exists()


def test_steps_that_are_found_by_their_launches(kernels: Kernels) -> None:
    flags = ("--steps", "1", "--every", "20", "--metrics", METRICS, "-o", "x")
    said = kernels("repeat", 400, "k7,k8,s,u1000", flags=flags).err
    launches, windows = (
        re.search(r"counted (\d+) launches", said),
        re.search(r"(\d+) windows", said),
    )
    assert launches is not None, said
    assert windows is not None, said
    # The last step may be that in which the program ended.
    assert 2 * (int(windows[1]) - 1) <= int(launches[1]) <= 2 * int(windows[1])
    assert int(launches[1]) > 0


def test_the_drift_of_the_clock_between_passes(
    kernels: Kernels, nvml: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = ["2000"] * 18  # both ends of nine passes
    clocks[4] = "1500"
    for name, value in (nvml | {"FAKE_NVML_CLOCKS": ",".join(clocks)}).items():
        monkeypatch.setenv(name, value)
    metrics = ("--metrics", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "--json")
    flags = ("--replay-mode", "steps", "--profile-from-start", "off")
    words = ("start", "repeat", 1, "k7", "stop") * 11
    (found,) = json.loads(kernels(*words, flags=(*flags, *metrics)).out)["kernels"]
    assert (found["passes"], found["clock_drift_ratio"]) == (9, 0.25)
    replayed = kernels("repeat", 1, "k7", flags=metrics)
    assert json.loads(replayed.out)["kernels"][0]["clock_drift_ratio"] == 0
    one_pass = kernels("repeat", 1, "k7", flags=("--metrics", METRICS, "--json"))
    assert json.loads(one_pass.out)["kernels"][0]["clock_drift_ratio"] is None


def test_a_range_as_a_whole(kernels: Kernels) -> None:
    words = ("start", "repeat", 1, "k7,k8", "stop", "repeat", 2, "k9")
    flags = ("--replay-mode", "range", "--metrics", METRICS, "--page", "raw", "--csv")
    rows = list(csv.reader(io.StringIO(kernels(*words, flags=flags).out)))
    assert len(rows) == 3
    assert "range" in rows[2][4]


@pytest.mark.parametrize(
    ("words", "flags", "reason"),
    [
        (("repeat", 2, "k7"), ("-k", "other"), "no launch matched -k other"),
        (("repeat", 2, "g1"), (), "no kernel was launched that can be counted"),
        (
            ("push", "step", "repeat", 2, "k7", "pop"),
            ("--nvtx-include", "step"),
            "it is a push/pop range\nhint: use --nvtx-include 'step/'",
        ),
        (
            ("push", "step", "thread_range", "backward", 2, "pop"),
            ("--nvtx-include", "step/"),
            "were open in other threads than those that launch\nhint: use --nvtx-push-pop-scope",
        ),
        (
            ("repeat", 2, "k7"),
            ("--target-processes-filter", "python3"),
            "--target-processes-filter left out cuda_app",
        ),
        (
            ("repeat", 2, "k7"),
            ("--range-filter", ":2:"),
            "the program never called cudaProfilerStart",
        ),
    ],
)
def test_nothing_counted_has_a_reason(
    kernels: Kernels, words: tuple[object, ...], flags: tuple[str, ...], reason: str
) -> None:
    found = kernels(*words, flags=flags)
    assert (found.status, found.out) == (0, "")
    assert "warning: no kernel was counted: " in found.err
    assert reason in found.err


def test_launches_in_nvtx_ranges(kernels: Kernels) -> None:
    words = ("push", "step", "repeat", 1, "k7,k8", "push", "loss", "repeat", 1, "k9", "pop", "pop")
    flags = ("--nvtx-include", "step/", "--nvtx-exclude", "loss]", "--metrics", METRICS, "--json")
    found = kernels(*words, "repeat", 1, "k6", flags=flags)
    launches = json.loads(found.out)["kernels"]
    assert [launch["name"] for launch in launches] == ["kernel7(float *)", "kernel8(float *)"]
    assert [launch["nvtx"] for launch in launches] == ["step", "step"]


def test_the_program_is_stopped_when_the_launches_are_counted(kernels: Kernels) -> None:
    flags = ("-c", "3", "--kill", "yes", "--metrics", METRICS, "--json")
    found = kernels("repeat", 1, "k7x5", "sleep", 60_000, flags=flags)
    assert found.status == 0
    assert len(json.loads(found.out)["kernels"]) == 3
    assert "the launches of -c have been counted; stopping the program with SIGTERM" in found.err


def test_the_program_itself_is_counted(kernels: Kernels) -> None:
    flags = ("--target-processes", "application-only", "--metrics", METRICS)
    found = kernels("repeat", 2, "k7", flags=flags)
    assert "counted 2 launches" in found.err


CLOCKS = ("--clock-control", "base", "--metrics", METRICS, "-o", "x")


def test_clocks_are_locked_with_a_recent_cupti(kernels: Kernels) -> None:
    found = kernels("repeat", 2, "k7", flags=CLOCKS, version=130401)
    assert found.status == 0
    assert "counted 2 launches on GH100: 2 metrics, 1 pass, clocks locked to base\n" in found.err
    warnings = [line for line in found.err.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: --clock-control base changes the clocks of NVIDIA GH100 for all programs on it"
    ]


def test_clocks_that_a_killed_program_leaves_locked_are_told(kernels: Kernels) -> None:
    found = kernels("repeat", 300, "k7", "quit", 0, flags=CLOCKS, version=130401)
    assert "ended without unlocking the clocks of GPU 1: run sudo nvidia-smi" in found.err


def test_an_older_cupti_is_refused_before_the_program_starts(kernels: Kernels) -> None:
    found = kernels("repeat", 2, "k7", "memory", flags=CLOCKS)
    assert found.status != 0
    assert found.out == ""
    assert "error: --clock-control and --cache-control need CUPTI 13.4 or later" in found.err
    assert "hint: run pip install 'nvidia-cuda-cupti>=13.4'" in found.err
