"""From what is asked for to what the agents count, with a fake GPU and a fake profiler host."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pytest
from support import counter_host
from support.counter_host import FakeHost

from warpline.capture.counting import prepare as preparing
from warpline.capture.counting.prepare import Prepared, prepare
from warpline.capture.flags import counter_flags
from warpline.capture.machine.gpus import Gpu, Gpus
from warpline.capture.machine.obstacles import Obstacle, obstacle
from warpline.counters.host_process import RefusedError
from warpline.errors import CounterError, UsageError

CUPTI = Path("/opt/libcupti.so.13")
TWO_PASSES = "sm__inst_executed.sum,sm__inst_issued.sum,sm__warps_active.sum"


class Host(FakeHost):
    """The fake host in the place of a process."""

    def __init__(self, paths: list[Path]) -> None:
        assert paths == [CUPTI]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def gpu(index: int = 0, chip: str | None = "GH100", problem: Obstacle | None = None) -> Gpu:
    return Gpu(index, f"NVIDIA {chip}", chip, problem, is_tried=index == 0)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "HostProcess", Host)
    put(monkeypatch, gpu())


def put(monkeypatch: pytest.MonkeyPatch, *found: Gpu) -> None:
    monkeypatch.setattr(preparing, "find_gpus", lambda *_: Gpus(found, CUPTI))


def prepared(line: str) -> Prepared:
    return prepare(counter_flags.parse(line.split()), {}, None)


def test_metrics_have_full_names_and_units() -> None:
    found = prepared("--metrics sm__inst_executed,lts__t_hit_rate.pct x")
    assert found.counters is not None
    names = [name for name, _ in found.counters.metrics]
    assert names[:2] == ["sm__inst_executed.avg", "sm__inst_executed.max"]
    assert dict(found.counters.metrics)["lts__t_hit_rate.pct"] == "%"
    assert dict(found.counters.metrics)["sm__inst_executed.sum"] == "inst"
    assert (found.counters.passes, found.chip, found.warnings) == (1, "GH100", ())


def test_passes_are_planned() -> None:
    found = prepared(f"--metrics {TWO_PASSES} x")
    assert found.counters is not None
    assert found.counters.passes == 2


def test_what_is_left_out_is_told() -> None:
    found = prepared("--metrics sm__inst_executed.sum,launch__uses_cdp x")
    assert found.warnings == ("not counted: launch__uses_cdp (no counter: from the launch)",)
    links = prepared("--metrics sm__inst_executed.sum,pcie__read_bytes.sum x")
    assert links.counters is not None
    assert [name for name, _ in links.counters.metrics] == ["sm__inst_executed.sum"]
    assert links.warnings[0].startswith(
        "1 metric cannot be counted in the same run, such as pcie__read_bytes.sum"
    )
    assert prepared("--set basic x").warnings == ()  # what the chip lacks of a set is in the plan


def test_facts_are_recorded_without_being_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_host, "COUNTERS", counter_host.COUNTERS | counter_host.CLOCK)
    facts = "launch__grid_size,device__attribute_multiprocessor_count"
    found = prepared(f"--metrics sm__inst_executed.sum,{facts} x")
    assert found.counters is not None
    assert [name for name, _ in found.counters.metrics] == ["sm__inst_executed.sum"]
    assert found.warnings == ()
    alone = prepared(f"--metrics {facts} x")  # something must be counted for a launch to be there
    assert alone.counters is not None
    assert [name for name, _ in alone.counters.metrics] == ["gpu__time_duration.sum"]
    assert alone.warnings == ()


def test_several_chips_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, gpu(), gpu(1, "GA100"), gpu(2, "GA100"))
    (warning,) = prepared("x").warnings
    assert warning.startswith("metrics are those of GH100; GPU 2 (NVIDIA GA100) may not have")
    assert prepared("--devices 0 x").warnings == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--set nonsense x", "unknown set 'nonsense'"),
        ("--section Nonsense x", "unknown section 'Nonsense'"),
        ("--section regex:^Nonsense x", "no section matches"),
        ("--metrics sm__nonsense.sum x", "GH100 has no metric 'sm__nonsense.sum'"),
        ("--metrics launch__uses_cdp x", "none of the metrics is a counter of GH100"),
        (
            f"--replay-mode range --metrics {TWO_PASSES} x",
            "--replay-mode range: these metrics need 2 passes",
        ),
    ],
)
def test_what_cannot_be_counted_is_an_error(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(line)
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_runs_of_application_replay_count_one_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_host, "COUNTERS", counter_host.COUNTERS | counter_host.CLOCK)
    found = prepared(f"--replay-mode application --metrics {TWO_PASSES},pcie__read_bytes.sum x")
    assert found.counters is not None
    common = ("gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second")
    named = [[name for name, _ in run.metrics] for run in found.runs]
    assert named == [*([*common, name] for name in TWO_PASSES.split(",")), ["pcie__read_bytes.sum"]]
    assert {(run.replay, run.passes) for run in found.runs} == {("serial", 1)}
    assert [name for name, _ in found.counters.metrics] == [
        *TWO_PASSES.split(","),
        "pcie__read_bytes.sum",
    ]
    assert (found.counters.passes, found.warnings) == (4, ())


def test_metrics_of_several_passes_of_a_launch_are_left_out_of_runs() -> None:
    several = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    found = prepared(f"--replay-mode application --metrics sm__inst_executed.sum,{several} x")
    assert [[name for name, _ in run.metrics] for run in found.runs] == [["sm__inst_executed.sum"]]
    (warning,) = found.warnings
    assert warning == (
        f"not counted, because they need several passes of one launch: {several};"
        " --replay-mode kernel counts them"
    )
    with pytest.raises(UsageError, match="each of these metrics needs several passes"):
        prepared(f"--replay-mode app-range --metrics {several} x")


def test_old_cupti_cannot_group_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[list[str]]:
        raise RefusedError("refused", 27)

    monkeypatch.setattr(Host, "one_pass_groups", refuse)
    with pytest.raises(CounterError, match=r"needs CUPTI 12\.9 or later"):
        prepared(f"--replay-mode application --metrics {TWO_PASSES} x")
    assert prepared("--replay-mode application --metrics sm__inst_executed.sum x").runs


def test_ranges_of_one_pass_are_counted() -> None:
    found = prepared("--replay-mode app-range --metrics sm__inst_executed.sum x").counters
    assert found is not None
    assert found.replay == "range"


def test_without_rights_light_is_a_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = obstacle(35)
    put(monkeypatch, gpu(problem=denied))
    assert prepared("x") == Prepared(None, denied)
    assert prepared("--set light -k gemm x").obstacle is denied
    for line in ("--set basic x", "--metrics sm__inst_executed.sum x"):
        with pytest.raises(CounterError) as caught:
            prepared(line)
        assert caught.value.message.startswith("this user may not read GPU counters")
        assert "NVreg_RestrictProfilingToAdminUsers=0" in (caught.value.hint or "")


def test_without_rights_nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = counter_flags.parse(["--source", "x"])
    assert preparing.prepare_samples(settings, {}, None) == "GH100"
    put(monkeypatch, gpu(problem=obstacle(35)))
    with pytest.raises(CounterError) as caught:
        preparing.prepare_samples(settings, {}, None)
    assert caught.value.message.startswith("this user may not read GPU counters")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in (caught.value.hint or "")


def test_a_chip_that_cupti_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, gpu(chip=None))
    with pytest.raises(CounterError, match="is unknown to CUPTI"):
        prepared("x")


@pytest.mark.parametrize("line", ["--clock-control boost x", "--cache-control all x"])
def test_clocks_and_caches_need_a_recent_cupti(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    for version, said in {28: "older than 13", 130301: "13.3"}.items():
        monkeypatch.setattr(
            preparing, "find_gpus", lambda *_, of=version: Gpus((gpu(),), CUPTI, of)
        )
        with pytest.raises(CounterError) as caught:
            prepared(line)
        assert caught.value.message == (
            f"--clock-control and --cache-control need CUPTI 13.4 or later; {CUPTI} is {said}"
        )
        assert "pip install 'nvidia-cuda-cupti>=13.4'" in (caught.value.hint or "")
    monkeypatch.setattr(preparing, "find_gpus", lambda *_: Gpus((gpu(),), CUPTI, 130400))
    assert prepared(line).counters is not None
