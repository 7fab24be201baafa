"""Plans, on a made-up GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.counter_host import FakeHost

from warpline.counters.plan import plan
from warpline.counters.sets import LIGHT, SECTIONS, SETS, Section
from warpline.errors import CounterError, UsageError


def test_passes_and_what_each_metric_needs():
    found = plan(FakeHost(), "gh100", words=["sm__throughput", "lts__t_hit_rate.pct"])
    assert found.chip == "GH100"
    (session,) = found.sessions
    assert (session.passes, found.passes) == (2, 2)
    assert found.launch_cost_ns == 50_000_000, "two passes with kernel replay"
    assert session.counters == (4, 1)
    passes = {metric.name: metric.passes for metric in session.metrics}
    assert passes["sm__throughput.avg.pct_of_peak_sustained_elapsed"] == (1, 2)
    assert passes["lts__t_hit_rate.pct"] == (1,)
    assert session.metrics_in(1) == (1, 2)
    assert session.metrics_in(2) == (0, 2)


def test_what_cannot_be_counted_together_is_in_sessions():
    words = ["pcie__read_bytes.sum", "sm__inst_executed.sum", "lts__t_sectors.sum"]
    found = plan(FakeHost(), "GH100", words=words)
    names = [[metric.name for metric in session.metrics] for session in found.sessions]
    assert names == [words[:1], words[1:]]
    assert found.passes == 2


def test_a_section_leaves_out_what_the_chip_lacks():
    section = Section(
        "S",
        "A section",
        "sm__{inst_executed,inst_missing}.sum\ndram__bytes.sum | lts__t_sectors.sum\n",
    )
    asked = ["sm__inst_executed.sum", "sm__warps_active.avg"]
    found = plan(FakeHost(), "GH100", [replace(section, is_exact=True)], asked)
    assert [(metric.name, metric.section) for metric in found.metrics] == [
        ("sm__inst_executed.sum", "S"),
        ("lts__t_sectors.sum", "S"),
        ("sm__warps_active.avg", ""),
    ]
    assert found.left_out == {"sm__inst_missing.sum": "not on GH100"}
    # As in ncu, metrics of a section are collected with all of average, maximum, minimum and sum.
    with_others = plan(FakeHost(), "GH100", [section])
    names = [metric.name for metric in with_others.metrics]
    assert names == [
        f"{base}.{rollup}"
        for base in ("sm__inst_executed", "lts__t_sectors")
        for rollup in ("sum", "avg", "max", "min")
    ]
    assert with_others.passes == plan(FakeHost(), "GH100", [replace(section, is_exact=True)]).passes


def test_a_section_by_priority_is_one_pass():
    wanted = ("sm__warps_active.avg", "sm__inst_executed.sum", "sm__inst_issued.sum")
    section = Section("S", "One pass", "\n".join((*wanted, "lts__t_sectors.sum")), True, True)
    found = plan(FakeHost(), "GH100", [section])
    assert (found.passes, found.launch_cost_ns) == (1, 1_000_000)
    names = [metric.name for metric in found.metrics]
    assert names == [*wanted[:2], "lts__t_sectors.sum"], "the third event of an SM is left out"
    assert found.left_out == {wanted[2]: "needs another pass"}


def test_values_without_counters_need_no_pass():
    words = ["launch__registers_per_thread", "sm__sass_inst_executed_op_ld.sum"]
    found = plan(FakeHost(), "GH100", words=words)
    assert found.left_out == {words[0]: "no counter: from the launch"}
    assert [metric.is_instrumented for metric in found.metrics] == [True]
    nothing = plan(FakeHost(), "GH100", words=[words[0], "breakdown:lts__t_sectors.sum"])
    assert (nothing.passes, nothing.metrics) == (0, ())
    assert nothing.left_out["breakdown:lts__t_sectors.sum"] == "no parts are known"


def test_a_metric_that_fails_all_others_is_left_out():
    words = ["sm__broken.sum", "sm__inst_executed.sum", "lts__t_sectors.sum"]
    found = plan(FakeHost(), "GH100", words=words)
    assert [metric.name for metric in found.metrics] == words[1:]
    assert "cannot schedule" in found.left_out[words[0]]
    section = Section("S", "One pass", "\n".join(words), True, True)
    light = plan(FakeHost(), "GH100", [section])
    assert (light.passes, light.left_out) == (1, found.left_out)


def test_the_usual_plan_asks_once():
    host = FakeHost()
    plan(host, "GH100", words=["sm__inst_executed", "lts__t_sectors"])
    assert host.asked == 1


def test_errors_name_the_chip_or_the_metric():
    with pytest.raises(UsageError) as raised:
        plan(FakeHost(), "GH10", words=["sm__inst_executed.sum"])
    assert "GH100" in (raised.value.hint or "")
    with pytest.raises(CounterError, match="no profiling metrics of GA100"):
        plan(FakeHost(), "GA100", words=["sm__inst_executed.sum"])
    with pytest.raises(UsageError, match="has no metric"):
        plan(FakeHost(), "GH100", words=["sm__inst_executed.sum", "sm__nothing.sum"])


def test_every_section_is_written_in_the_notation():
    for section in SECTIONS:
        requests = section.requests()
        assert requests
        for name in (name for request in requests for name in request):
            assert not set(name) & set("{},| \\"), name
            assert "__" in name
            assert "." in name
    assert [item.name for item in SETS if item.is_one_pass] == ["light"]
    assert SETS.get("default").name == "basic"
    assert {*SETS.get("basic").sections} < {*SETS.get("detailed").sections}
    assert {*SETS.get("detailed").sections} < {*SETS.get("full").sections}
    assert all(len(request) == len(set(request)) for request in LIGHT.requests())
