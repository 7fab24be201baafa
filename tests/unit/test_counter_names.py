"""Names of metrics, as ncu takes them."""

from __future__ import annotations

import pytest
from support.counter_host import COUNTERS, SUB_METRICS, FakeHost

from warpline.counters.names import Catalogue, source_of, split, unit_of_gpu
from warpline.errors import UsageError

HOST = FakeHost()
CATALOGUE = Catalogue("GH100", HOST.metrics("GH100"), SUB_METRICS)


def expanded(word: str) -> list[str]:
    return CATALOGUE.expanded(word, lambda base: HOST.breakdown("GH100", base))


def test_a_full_name_is_one_metric():
    assert expanded("sm__inst_executed.sum.per_second") == ["sm__inst_executed.sum.per_second"]
    assert expanded("LTS.Triage.lts__t_hits.sum") == ["LTS.Triage.lts__t_hits.sum"]


def test_a_base_name_is_its_first_level():
    rollups = (".avg", ".max", ".min", ".sum")
    assert expanded("sm__inst_executed") == [f"sm__inst_executed{item}" for item in rollups]
    assert expanded("lts__t_hit_rate") == ["lts__t_hit_rate.pct", "lts__t_hit_rate.ratio"]
    assert expanded("sm__throughput") == [f"sm__throughput{x}" for x in SUB_METRICS["throughput"]]


def test_a_name_with_the_others_over_the_units_of_the_gpu():
    names = ["sm__inst_executed.max", "sm__inst_issued.sum.per_second", "lts__t_hit_rate.pct"]
    assert CATALOGUE.over_units(names) == [
        *(f"sm__inst_executed.{over}" for over in ("max", "avg", "min", "sum")),
        *names[1:],
    ]


def test_a_breakdown_is_what_a_throughput_is_made_of():
    with pytest.raises(UsageError, match=r"has no \.sum"):
        expanded("breakdown:sm__throughput.sum")
    # Counters of this GPU have no percentage of the peak, so nothing can be added.
    assert expanded("breakdown:sm__throughput") == []
    assert expanded("breakdown:sm__inst_executed.sum") == []
    SUB_METRICS_WITH = SUB_METRICS | {"counter": (".avg.pct_of_peak_sustained_elapsed",)}  # noqa: N806
    whole = Catalogue("GH100", HOST.metrics("GH100"), SUB_METRICS_WITH)
    assert whole.expanded("breakdown:sm__throughput", lambda _: ["sm__inst_executed", "none"]) == [
        "sm__inst_executed.avg.pct_of_peak_sustained_elapsed"
    ]


def test_a_regular_expression_matches_base_names_or_else_full_names():
    assert expanded("regex:^sm__inst_e") == expanded("sm__inst_executed")
    found = expanded(r"regex:sm__inst_.*\.sum$")
    assert found == ["sm__inst_executed.sum", "sm__inst_issued.sum"]
    with pytest.raises(UsageError, match="no metric of GH100 matches"):
        expanded("regex:^dram__")
    with pytest.raises(UsageError, match="invalid regular expression"):
        expanded("regex:sm__(")


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("sm__inst_executd.sum", "has no metric 'sm__inst_executd.sum'", "sm__inst_executed.sum"),
        ("sm__inst_executed.summ", "is a counter and has no .summ", "sm__inst_executed.sum"),
        ("lts__t_hit_rate.avg", "is a ratio and has no .avg", ".pct, .ratio"),
        ("breakdown:sm__throughputs", "has no metric 'sm__throughputs'", "sm__throughput"),
        ("group:memory", "group: is not supported", "regex:"),
        ("nothing", "has no metric 'nothing'", "--list-metrics"),
    ],
)
def test_an_unknown_name_is_reported_with_a_similar_one(word, message, hint):
    with pytest.raises(UsageError) as raised:
        expanded(word)
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_names_are_split_behind_the_domain():
    assert split("LTS.Triage.lts__t_hits.sum.per_second") == (
        "LTS.Triage.lts__t_hits",
        ".sum.per_second",
    )
    assert [split(name) for name in COUNTERS] == [(name, "") for name in COUNTERS]
    assert unit_of_gpu("LTS.Triage.lts__t_hits.sum") == "lts"


def test_values_that_are_no_counters_are_known():
    assert source_of("launch__registers_per_thread") == "from the launch"
    assert source_of("smsp__pcsamp_sample_count") == "from PC sampling"
    assert source_of("memory_l2_theoretical_sectors_global") is not None
    assert source_of("smsp__inst_executed.sum") is None
