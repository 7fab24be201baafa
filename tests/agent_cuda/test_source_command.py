"""``warpline kernels --source`` of a program with the fake CUDA: from the flags to the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_cuda import sampled_pcs as pcs
from agent_cuda.kernels_command import Kernels, kernels_command
from support.launching import Ended, environment

import warpline
from warpline import native
from warpline.cli import main

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


@pytest.fixture
def source(tmp_path: Path, cuda: Any) -> Kernels:
    """Return a function that samples the fake program, with further flags."""

    def run(*words: object, flags: tuple[str, ...] = (), script: str = "") -> Ended:
        return kernels_command(tmp_path, cuda, words, ("--source", *flags), script=script)

    return run


def _samples(path: Path) -> dict[tuple[str, int, str], tuple[int, int]]:
    """Return the samples of a recording by function, offset and stall reason."""
    trace = warpline.open(path)
    rows = trace.columns("pc_sample", "function_id", "stall_id", "offset_bytes", "samples")
    idle = trace.columns("pc_sample", "not_issued_samples")["not_issued_samples"].values.tolist()
    names, stalls = (
        trace.strings.texts(rows[name].values.tolist()) for name in ("function_id", "stall_id")
    )
    offsets, counts = (rows[name].values.tolist() for name in ("offset_bytes", "samples"))
    places = list(zip(names, offsets, stalls, strict=True))
    assert len(set(places)) == len(places), "rows are added up"
    return dict(zip(places, zip(counts, idle, strict=True), strict=True))


def _of(samples: pcs.Samples) -> dict[tuple[str, int, str], tuple[int, int]]:
    return {(place.function, place.offset, place.stall): both for place, both in samples.items()}


def test_the_status_is_the_programs_and_kernels_are_ranked(source: Kernels, tmp_path: Path) -> None:
    found = source("repeat", 40, "k7g64x3,k8g3", "exit", 3)
    assert found.status == 3
    first, second = (
        line.split() for line in found.out.splitlines() if line.endswith(("kernel7", "kernel8"))
    )
    assert first == ["69120", "98.5", "66.7", "66.7", "long_scoreboard", "kernel7"]
    assert second[-1] == "kernel8"
    assert "\nkernel7: 69,120 samples\n" in found.out
    assert found.err == "note: 70,200 samples on GH100, one per SM every 16,384 cycles\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages"]


def test_chosen_kernels_as_json(source: Kernels) -> None:
    found = source("repeat", 4, "k7,k8", flags=("--json", "-k", "kernel8"))
    (code,) = json.loads(found.out)["code"]
    assert (code["function"], code["samples"]) == ("_Z7kernel8Pf", 4 * 9)


def test_a_recording_that_is_kept(source: Kernels, tmp_path: Path) -> None:
    found = source("repeat", 40, "k7g2,k18", flags=("-o", "x", "--sampling-interval", "0"))
    assert (found.out, found.err.splitlines()[-1]) == ("", "note: wrote x.warpline")
    trace = warpline.open(tmp_path / "x.warpline")
    assert _samples(tmp_path / "x.warpline") == _of(
        pcs.added([pcs.of_launch(7, 80), pcs.of_launch(18, 40)])
    )
    sampling = trace.columns(
        "pc_sampling", "period_cycles", "total_samples", "hardware_buffer_full"
    )
    assert [column.values.tolist() for column in sampling.values()] == [[32], [1080], [False]]
    modules = trace.columns("pc_sample", "module_checksum")["module_checksum"].values
    assert sorted({*modules.tolist()}) == [pcs.CHECKSUMS, pcs.CHECKSUMS + 1]
    names = trace.strings.texts(trace.columns("pc_sample", "name_id")["name_id"].values.tolist())
    assert {*names} == {"kernel7(float *)", "kernel18(float *)"}
    assert not trace.has("kernel")
    assert trace.meta.warnings == ()


def test_pages_of_a_recording(
    source: Kernels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source("repeat", 40, "k7g2,k18", flags=("-o", "x"))
    path = str(tmp_path / "x.warpline")

    def printed(*words: str) -> str:
        assert main([*words]) == 0
        return capsys.readouterr().out

    assert "\nkernel7: 720 samples\n" in printed("kernels", path)
    assert "\nDevice " in printed("kernels", path, "--page", "session")
    summary = printed(path)
    assert "kernel7(float *)" in summary
    assert "next: warpline kernels" in summary
    assert main(["kernels", path, "--page", "raw"]) != 0
    assert "no profiled kernels" in capsys.readouterr().err


def test_processes_have_rows_of_their_own(source: Kernels, tmp_path: Path) -> None:
    script = '"$@" && "$@"'
    found = source("repeat", 10, "k7", flags=("-o", "x"), script=script)
    assert found.status == 0, found.err
    trace = warpline.open(tmp_path / "x.warpline")
    assert trace.row_count("pc_sampling") == 2
    counts = trace.columns("pc_sample", "samples")["samples"].values
    assert int(counts.sum()) == 2 * 10 * 9


def test_what_was_written_is_recovered_from_a_killed_program(
    source: Kernels, tmp_path: Path
) -> None:
    found = source("repeat", 5, "k7", "sleep", 2500, "kill", flags=("-o", "x"))
    assert found.status == -9
    assert "was killed or called _exit: up to an eighth of its samples" in found.err
    assert _samples(tmp_path / "x.warpline") == _of(pcs.of_launch(7, 5))


def test_recover(tmp_path: Path, session: Any, cuda: Any) -> None:
    new = session(cuda=1, cupti_path=[cuda.cupti13], **pcs.keys())
    subprocess.run(
        cuda.command("init", "repeat", 5, "k7"), env=cuda.environment(new), check=True, timeout=60
    )
    new.close()
    command = [sys.executable, "-m", "warpline", "recover", str(new.folder), "-o", "found.warpline"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(),
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert "program counter samples in 6 rows" in done.stderr
    assert _samples(tmp_path / "found.warpline") == _of(pcs.of_launch(7, 5))


def test_warnings(source: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PC_DROPPED", "7")
    monkeypatch.setenv("FAKE_PC_NON_USER", "5")
    lines = source("repeat", 10, "k7").err.splitlines()
    assert "warning: the GPU dropped 70 of 210 samples: use a larger --sampling-interval" in lines
    assert any(
        line.startswith("warning: 50 of 210 samples are in kernels of the driver") for line in lines
    )


def test_a_full_buffer(source: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PC_FULL", "1")
    assert "samples are missing: the GPU's buffer was full" in source("repeat", 3, "k7").err


REFUSED = {"FAKE_COUNTERS_REFUSE": "cuptiPCSamplingEnable=35"}
REASONS = [
    (("sleep", 1), {}, (), "no kernel ran long enough"),
    (("repeat", 3, "k7"), REFUSED, (), "ERR_NVGPUCTRPERM"),
    (("repeat", 3, "k7"), {}, ("--target-processes-filter", "python"), "left out cuda_app"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "variables", "flags", "reason"), REASONS)
def test_why_nothing_was_sampled(
    source: Kernels,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    variables: dict[str, str],
    flags: tuple[str, ...],
    reason: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = source(*words, flags=flags)
    assert (found.status, found.out) == (0, "")
    assert "warning: nothing was sampled: " in found.err
    assert reason in found.err
