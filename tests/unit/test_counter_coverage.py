"""What the sets collect of the metrics in a report of ``ncu --set full``; no GPU is needed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from support import ncu_captures
from support.counter_host import real_host
from support.recorded_reports import recorded

import warpline
from warpline import native
from warpline.counters.formulas import FORMULAS
from warpline.counters.host_process import HostProcess
from warpline.counters.names import LAUNCH_FACTS, source_of
from warpline.counters.plan import catalogue, plan
from warpline.counters.sets import SECTIONS, SETS
from warpline.derived.counters.launch_metrics import launch_metrics
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_pages import launches
from warpline.trace import Trace

CHIP = "GH100"  # of the report
SAMPLED = ".TriageCompute."  # by ncu, over time
# What docs/kernels.md says about them.
NOT_GIVEN = {
    r".*\.TriageCompute\.": 32,
    r"smsp__pcsamp_": 44,
    r"thread_inst|sass__|memory_|smsp__(branch_targets_threads|sass_inst_executed_memdesc)_": 32,
    r"nvlink__|numa__|c2clink__": 24,
    r"derived_": 19,
    r"profiler__": 17,
    r"launch__": 31,
    r"device__attribute_": 22,
}
GROUPS = ("breakdown:", "group:")  # names of several metrics, without values


@pytest.fixture(scope="module")
def host() -> Iterator[HostProcess]:
    with real_host() as process:
        yield process


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Trace:
    return warpline.open(ncu_captures.unpack("uncoalesced.fixed", tmp_path_factory.mktemp("ncu")))


@pytest.fixture(scope="module")
def names(report) -> set[str]:
    """Return the names of the report's metrics."""
    return {name for name in report["kernel_metric"]["name"] if not name.startswith(GROUPS)}


def test_facts_of_launches_are_those_that_are_derived(report, tmp_path):
    assert {metric.name for metric in launch_metrics(recorded(report, tmp_path))} == LAUNCH_FACTS


def test_the_full_set_has_every_counter_of_ncus_full_set(host, names):
    metrics = catalogue(host, CHIP)
    counters = {name for name in names if name in metrics and SAMPLED not in name}
    full = {metric.name for metric in plan(host, CHIP, SETS.get("full").sections).metrics}
    assert sorted(counters - full) == []
    assert not any(SAMPLED in name for name in full)
    assert 1770 < len(counters) <= 1815, "as many since CUPTI 13.0"
    unknown = {name for name in names - counters if SAMPLED not in name and not source_of(name)}
    assert len(unknown) == 1815 - len(counters), "what this CUPTI does not know"


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_nine_tenths_of_ncus_names_are_given(report, names, tmp_path):
    counters = {name for name in names if SAMPLED not in name and source_of(name) is None}
    trace = recorded(report, tmp_path)
    added = {*launches(trace, Choice()).shown} - {*trace["kernel_metric"]["name"]}
    assert added <= names
    assert (len(names), len(counters), len(added)) == (2227, 1815, 191)
    given = counters | added
    assert len(given) > 0.9 * len(names)
    missing = Counter(_kind(name) for name in names - given)
    assert missing == NOT_GIVEN


def test_what_follows_from_counters_is_planned_as_these(host):
    for formula in FORMULAS.values():
        found = plan(host, CHIP, words=[formula.name])
        assert [metric.name for metric in found.metrics] == formula.counters


def _kind(name: str) -> str:
    return next((kind for kind in NOT_GIVEN if re.match(kind, name)), name)


def test_sections_have_what_ncus_sections_show(host, report):
    metrics = catalogue(host, CHIP)
    identifiers = report["kernel_section"]["identifier"].to_list()
    shown = defaultdict(set)
    lines = report["section_metric"]
    for section, name in zip(lines["kernel_section_id"], lines["name"], strict=True):
        if name in metrics and SAMPLED not in name:
            shown[identifiers[section]].add(name)
    assert {"SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats"} <= shown.keys()
    for identifier, wanted in shown.items():
        found = plan(host, CHIP, [SECTIONS.get(identifier)])
        assert sorted(wanted - {metric.name for metric in found.metrics}) == [], identifier


def test_a_breakdown_has_the_names_of_ncus(host, report):
    table = report["kernel_metric"]
    breakdowns = table.filter(table["name"].str.starts_with("breakdown:"))
    assert len(breakdowns) == 8
    metrics = catalogue(host, CHIP)
    for word, text in zip(breakdowns["name"], breakdowns["text"], strict=True):
        found = [metric.name for metric in plan(host, CHIP, words=[word]).metrics]
        wanted = [name for name in re.findall(r"[\w.]+", text) if name in metrics]
        assert sorted(found) == sorted(wanted), word


def test_the_chart_and_tables_of_memory_have_the_names_of_ncus(host, report):
    table = report["kernel_metric"]
    groups = table.filter(table["name"].str.starts_with("group:memory__"))
    assert len(groups) == 6
    metrics = catalogue(host, CHIP)
    for name, text in zip(groups["name"], groups["text"], strict=True):
        kind = "Chart" if name.endswith("_chart") else "Tables"
        section = SECTIONS.get(f"MemoryWorkloadAnalysis_{kind}")
        found = {metric.name for metric in plan(host, CHIP, [section]).metrics}
        wanted = {item for item in re.findall(r"[\w.]+", text) if item in metrics}
        # C2C links are listed, but ncu did not count them either.
        assert sorted(item for item in wanted - found if not item.startswith("ctc__")) == [], name


def test_the_light_set_means_the_same_in_a_report(host):
    light = [metric.name for metric in plan(host, CHIP, SETS.get("light").sections).metrics]
    assert len(light) == 21
    assert not any(SAMPLED in name for name in light)
