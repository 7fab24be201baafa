"""The command line of ``warpline kernels --source``."""

from __future__ import annotations

import pytest

from warpline.capture.flags import counter_flags
from warpline.capture.flags.counting import CountingSettings, Page
from warpline.capture.session.agent_config import AgentConfig
from warpline.errors import UsageError


def parse(line: str) -> CountingSettings:
    return counter_flags.parse(line.split())


def config(line: str) -> list[str]:
    """Return what a command line writes to agent.conf about it."""
    capture = parse(line).capture("x", None)
    assert capture.counters is None
    assert not capture.is_timeline
    text = AgentConfig(nvtx=False, pc_sampling=capture.pc_sampling).text()
    return [pair for pair in text.splitlines() if pair.startswith(("pc_", "counter"))]


def test_the_whole_run_is_sampled() -> None:
    assert config("--source ./a --set full") == ["pc_sampling=14"]
    assert parse("--source ./a --set full").command == ("./a", "--set", "full")
    assert parse("--source ./a").capture("x", None).trace == ("cuda",)


@pytest.mark.parametrize(("interval", "exponent"), [("auto", 14), ("0", 5), ("11", 16), ("26", 31)])
def test_intervals_are_those_of_ncu(interval: str, exponent: int) -> None:
    assert config(f"--source --sampling-interval {interval} ./a") == [f"pc_sampling={exponent}"]


@pytest.mark.parametrize("interval", ["27", "31", "-1", "often"])
def test_intervals_that_cupti_lacks(interval: str) -> None:
    with pytest.raises(UsageError, match="a number from 0 to 26"):
        parse(f"--source --sampling-interval={interval} ./a")


def test_devices_and_processes() -> None:
    line = "--source --devices 0,2 --target-processes-filter python ./a"
    assert config(line) == ["pc_sampling=14", "counter_devices=0%2C2", "counter_processes=python"]


NOT_WITH_IT = (
    *("--set full", "--section SpeedOfLight", "--metrics sm__cycles_active.sum", "--sample 5"),
    *("--overhead 5", "-s 1", "-c 1", "--kernel-id ::a:1", "--nvtx-include a/", "--steps 1"),
    *("--profile-from-start no", "--replay-mode range", "--clock-control base", "--kill yes"),
    *("--print-summary per-kernel", "--page raw", "--page details"),
)


@pytest.mark.parametrize("flag", NOT_WITH_IT)
def test_what_counts_or_chooses_launches_is_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=r"^--source and --") as caught:
        parse(f"--source {flag} ./a")
    assert caught.value.hint


def test_names_choose_what_is_printed() -> None:
    assert parse("--source -k regex:gemm --page source ./a").kernel_name == "regex:gemm"


def test_the_page_of_a_report() -> None:
    assert parse("x.ncu-rep --source").page is Page.SOURCE
    with pytest.raises(UsageError, match="--source and --page raw cannot be combined"):
        parse("x.ncu-rep --source --page raw")


def test_flags_of_sampling_have_no_effect_on_counters() -> None:
    assert parse("--import-source no --sampling-interval 3 ./a").ignored == [
        "--sampling-interval",
        "--import-source",
    ]
    assert parse("--source --import-source no ./a").ignored == []
    assert not parse("--source --import-source no ./a").import_source
