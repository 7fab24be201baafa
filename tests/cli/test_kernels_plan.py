"""``warpline kernels plan``, and the options of ``ncu`` that list something."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from support.counter_host import real_host

from warpline.capture.machine import cupti


@pytest.fixture
def real() -> None:
    """Skip the test if there is no CUPTI that can plan."""
    with real_host():
        pass


@pytest.mark.usefixtures("real")
def test_a_plan_as_text(run):
    done = run("kernels", "plan", "--set", "basic", "--chip", "gh100")
    assert (done.status, done.err) == (0, "")
    assert re.match(r"GH100, set basic: \d+ metrics, 9 passes ", done.out)
    assert "cost: about 225 ms per launch (estimated, as measured on an H100" in done.out
    assert "the kernel runs once per pass" in done.out
    light = run("kernels", "plan", "--chip", "GH100")
    assert "GH100, set light: 21 metrics, 1 pass" in light.out
    assert "cost: about 1 ms per launch, and 35 ms to switch counting on and off" in light.out
    assert "nothing is replayed or restored" in light.out


@pytest.mark.usefixtures("real")
def test_a_plan_as_json_has_the_passes_of_each_metric(run):
    words = ("--metrics", "sm__inst_executed.sum,launch__grid_size", "--section", "Nvlink")
    found = json.loads(run("kernels", "plan", "--chip", "GH100", *words, "-f", "json").out)
    assert found["title"] == "GH100, section Nvlink, --metrics"
    assert found["trace"]["chip"] == "GH100"
    assert found["trace"]["passes"] == sum(found["trace"]["passes_of_sessions"])
    assert found["trace"]["launch_cost_ns"] == 25_000_000 * found["trace"]["passes"]
    passes, metrics, left_out = (table["rows"] for table in found["tables"])
    assert len(passes) == found["trace"]["passes"]
    (asked,) = (row for row in metrics if row["metric"] == "sm__inst_executed.sum")
    assert (asked["passes"], asked["in_passes"], asked["section"]) == (1, "1", None)
    assert left_out == [{"reason": "no counter: from the launch", "metric": "launch__grid_size"}]


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--list-metrics", "--chip", "GH100", "^sm__pipe_tensor"),
        ("--query-metrics", "--chips", "gh100", "^sm__pipe_tensor"),
    ],
)
def test_metrics_with_units_and_descriptions(run, words):
    done = run("kernels", *words, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) > 3
    assert {row["Chip"] for row in rows} == {"GH100"}
    tensor = next(row for row in rows if row["Metric"] == "sm__pipe_tensor_cycles_active")
    assert (tensor["Type"], tensor["Unit"], tensor["HW Unit"]) == ("counter", "gpc_cycle", "sm")
    assert "tensor" in tensor["Description"]


@pytest.mark.usefixtures("real")
def test_metrics_of_several_chips_and_full_names(run):
    both = run("kernels", "--query-metrics", "--chips", "ga100,gh100", "-f", "json", "dram__bytes")
    assert [item["trace"]["chip"] for item in json.loads(both.out)] == ["GA100", "GH100"]
    mode = ("--query-metrics", "--query-metrics-mode", "suffix", "--chip", "GH100")
    names = run("kernels", *mode, "--metrics", "sm__throughput", "--csv").out.splitlines()
    assert "sm__throughput.avg.pct_of_peak_sustained_elapsed" in names
    of_set = run("kernels", "--list-metrics", "--set", "light", "--chip", "GH100", "--csv")
    assert len(of_set.out.splitlines()) == 1 + 21
    nothing = run("kernels", *mode)
    assert (nothing.status, "name the metrics" in nothing.err) == (2, True)


@pytest.mark.usefixtures("real")
def test_chips(run):
    assert "GH100" in run("kernels", "--list-chips").out.splitlines()


def test_sets_and_sections_need_no_cupti(run, monkeypatch):
    monkeypatch.setattr(cupti, "find_cupti", lambda _: [])
    sets = run("kernels", "--list-sets")
    assert sets.status == 0
    assert {line.split()[0] for line in sets.out.splitlines()[4:]} >= {"light", "basic", "full"}
    sections = run("kernels", "plan", "--list-sections", "--csv")
    rows = list(csv.DictReader(io.StringIO(sections.out)))
    assert "SpeedOfLight" in {row["Identifier"] for row in rows}
    absent = run("kernels", "plan", "--chip", "GH100")
    assert (absent.status, absent.err.splitlines()[0]) == (1, "error: CUPTI was not found")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan",), "missing --chip"),
        (("plan", "--chip", "GH100", "report.ncu-rep"), "unexpected argument 'report.ncu-rep'"),
        (("plan", "--sets"), "warpline kernels plan has no option '--sets'"),
        (("--query-metrics", "--query-metrics-mode", "some"), "invalid choice: 'some'"),
    ],
)
def test_wrong_words(run, words, message):
    done = run("kernels", *words)
    assert done.status == 2
    assert message in done.err.splitlines()[0]


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--chip", "GH10"), "did you mean GH100"),
        (("--chip", "GH100", "--set", "ful"), "did you mean full"),
        (("--chip", "GH100", "--section", "SpeedOfLigt"), "SpeedOfLight"),
        (("--chip", "GH100", "--metrics", "sm__inst_executd.sum"), "sm__inst_executed.sum"),
    ],
)
def test_unknown_names(run, words, hint):
    done = run("kernels", "plan", *words)
    assert done.status == 2
    assert hint in done.err.splitlines()[1]


def test_help_is_that_of_the_part(run):
    for words in (("kernels", "plan", "--help"), ("help", "kernels", "plan")):
        assert run(*words).out.startswith("usage: warpline kernels plan [--chip CHIP]")
    assert "REPORT" in run("kernels", "--help").out.splitlines()[0]
