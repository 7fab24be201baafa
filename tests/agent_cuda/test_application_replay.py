"""``--replay-mode application`` of a program that uses the fake CUDA: a run for each pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_cuda.kernels_command import Kernels, kernels_command
from support.launching import Ended

import warpline
from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

# Counters of the SM take a pass each, beside its clock; one of a link cannot be counted with it.
METRICS = {"sm__inst_executed.sum", "sm__warps_active.sum", "pcie__read_bytes.sum"}
FLAGS = ("--replay-mode", "application", "--metrics", ",".join(sorted(METRICS)))
# The number of the run, from 1, in the variable n.
COUNT = "n=$(($(cat runs 2>/dev/null || echo 0) + 1)); echo $n > runs; "


@pytest.fixture
def kernels(tmp_path: Path, cuda: Any) -> Kernels:
    """Return a function that counts the kernels of the fake program with flags.

    With `script`, a shell runs it, and its "$@" is the command line of the program.
    """

    def run(*words: object, flags: Sequence[str] = FLAGS, **more: Any) -> Ended:
        return kernels_command(tmp_path, cuda, words, flags, has_clock=True, **more)

    return run


def value(metric: str, grid: int, number: int) -> float:
    """Return what the fake counts: the rule that fake_counters.cpp states."""
    return 1000 * len(metric) + grid + number / 64


def counted(text: str) -> list[dict[str, Any]]:
    """Return the launches of a JSON page, with the counters among their metrics."""
    launches: list[dict[str, Any]] = json.loads(text[text.index("{") :])["kernels"]
    for launch in launches:
        found = launch["metrics"].items()
        launch["metrics"] = {name: number for name, number in found if "launch__" not in name}
    return launches


def of(launch: dict[str, Any]) -> set[str]:
    """Return the planned metrics that a launch has."""
    return METRICS & set(launch["metrics"])


def test_each_run_is_a_pass_and_one_recording_is_kept(kernels: Kernels, tmp_path: Path) -> None:
    found = kernels("repeat", 2, "k7g64,k8g3", "memory", flags=(*FLAGS, "--json", "-o", "x"))
    launches = counted(found.out)
    assert [(one["name"], one["grid"][0]) for one in launches] == [
        ("kernel7(float *)", 64),
        ("kernel8(float *)", 3),
    ] * 2
    for place, one in enumerate(launches):
        number, grid = (7, 64) if place % 2 == 0 else (8, 3)
        assert {name: one["metrics"][name] for name in METRICS} == {
            name: value(name, grid, number) for name in METRICS
        }
        assert (one["passes"], one["clock_drift_ratio"]) == (3, 0)
    before, _, _ = found.out.partition("{")
    assert len(set(before.splitlines())) * 3 == len(before.splitlines()) > 0, "printed in each run"
    assert found.err == "".join(f"note: pass {n} of 3\n" for n in range(1, 4)) + (
        "note: counted 4 launches on GH100: 3 metrics, 3 passes\nnote: wrote x.warpline\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages", "x.warpline"]
    trace = warpline.open(tmp_path / "x.warpline")
    assert trace["profiled_kernel"]["passes"].to_list() == [3] * 4
    assert set(trace["kernel_metric"]["name"]) == METRICS, "the clock was not asked for"
    assert trace["kernel_metric"].height == 4 * len(METRICS)


def test_filters_choose_the_same_launches_and_exit_codes_may_be_ignored(kernels: Kernels) -> None:
    flags = (*FLAGS, "-k", "kernel8", "-s", "1", "-c", "2", "--json", "--check-exit-code", "no")
    found = kernels("repeat", 4, "k7g64,k8g3", "exit", 3, flags=flags)
    assert found.status == 3
    launches = counted(found.out)
    assert [(one["name"], of(one)) for one in launches] == [("kernel8(float *)", METRICS)] * 2


def test_a_failing_run_ends_the_passes(kernels: Kernels) -> None:
    script = COUNT + '"$@"; [ $n -lt 2 ] || exit 5'
    found = kernels("repeat", 2, "k7", script=script, flags=(*FLAGS, "--json"))
    assert found.status == 5
    launches = counted(found.out)
    assert [(len(of(one)), one["passes"]) for one in launches] == [(1, 1)] * 2
    assert "pass 3 of 3" not in found.err
    assert "counted 2 launches on GH100: 1 metric, 1 pass" in found.err
    assert (
        "warning: pass 2 ended with exit status 5 (use --check-exit-code no to go on):"
        " 2 metrics are missing, such as " in found.err
    )


DEVIATING = COUNT + 'if [ $n = 2 ]; then exec "$@" repeat 1 k9; fi; exec "$@" repeat 2 k9'


def test_launches_that_differ_are_left_out(kernels: Kernels) -> None:
    found = kernels("repeat", 2, "k7", script=DEVIATING, flags=(*FLAGS, "--json"))
    assert [of(one) for one in counted(found.out)] == [METRICS] * 3
    assert "warning: 1 of 4 launches is not in all passes: they are left out\n" in found.err


def test_launches_that_must_not_differ(kernels: Kernels, tmp_path: Path) -> None:
    flags = (*FLAGS, "-o", "x", "--app-replay-mode", "strict")
    found = kernels("repeat", 2, "k7", script=DEVIATING, flags=flags)
    assert (found.status, found.out) == (0, "")
    assert "error: 1 of 4 launches is not in all passes\nhint: " in found.err
    assert not (tmp_path / "x.warpline").exists()


def test_processes_are_matched_and_read_the_same_input(kernels: Kernels, tmp_path: Path) -> None:
    script = 'cat; "$@" repeat 2 k8g2; "$@" repeat 1 k9g5'
    (tmp_path / "words").write_text("first\nsecond\n")
    with (tmp_path / "words").open() as words:
        flags = (*FLAGS, "--json")
        found = kernels("repeat", 1, "k7", script=script, flags=flags, stdin=words)
    launches = counted(found.out)
    assert sorted((one["name"], one["grid"][0]) for one in launches) == [
        *[("kernel7(float *)", 1)] * 2,
        *[("kernel8(float *)", 2)] * 2,
        ("kernel9(float *)", 5),
    ]
    assert all(of(one) == METRICS for one in launches)
    assert found.out.count("first\nsecond\n") == 3


def test_ranges_of_several_passes(kernels: Kernels) -> None:
    words = ("start", "repeat", 1, "k7g2,k8g3", "stop", "repeat", 2, "k9")
    flags = ("--replay-mode", "app-range", *FLAGS[2:], "--json")
    (whole,) = counted(kernels(*words, flags=flags).out)
    assert (of(whole), whole["passes"], whole["concurrent"]) == (METRICS, 3, True)


def test_runs_without_a_launch_in_common_have_a_reason(kernels: Kernels) -> None:
    script = COUNT + '"$@" repeat 2 k$n'
    found = kernels(script=script, flags=(*FLAGS, "--page", "summary"))
    assert (found.status, found.out) == (0, "")
    assert "warning: no kernel was counted: no launch is in all passes\nhint: use" in found.err


def test_nothing_to_count_is_not_repeated(kernels: Kernels) -> None:
    found = kernels("repeat", 1, "k7", flags=(*FLAGS, "-k", "other"), input="")
    assert "pass 2" not in found.err
    assert "warning: no kernel was counted: no launch matched -k other" in found.err
    assert "warning: standard input is a pipe: only the first pass can read it" in found.err
