"""Metrics are grouped so that each group takes one pass."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support.counter_host import real_host

from warpline.capture.counting.passes import COMMON, runs_of
from warpline.counters.one_pass import Counters, one_pass_groups
from warpline.counters.plan import plan
from warpline.counters.sets import SETS

_FIT = 3  # counters of each of two parts of a made-up GPU


def _fits(counters: Counters) -> bool:
    parts = Counter(counter[:1] for counter in counters)
    return all(count <= _FIT for count in parts.values())


class _Pass:
    def __init__(self) -> None:
        self._counters: Counters = frozenset()

    def add(self, counters: Counters) -> bool:
        is_possible = _fits(self._counters | counters)
        if is_possible:
            self._counters |= counters
        return is_possible


_COUNTER = st.builds(
    lambda part, number: f"{part}{number}".encode(), *map(st.sampled_from, ("ab", range(6)))
)
_NEEDS = st.frozensets(_COUNTER, min_size=1, max_size=5)


@given(st.lists(_NEEDS, max_size=20), st.frozensets(_COUNTER, max_size=2))
def test_each_group_takes_one_pass_and_has_all_that_can_be_in_one(
    wanted: list[Counters], clock: Counters
) -> None:
    needs = {f"metric{place}": counters for place, counters in enumerate(wanted)}
    needs["clock"] = clock
    groups = one_pass_groups(needs, ["clock"], _Pass)
    grouped = [name for group in groups for name in group if name != "clock"]
    assert len(grouped) == len(set(grouped)), "each metric is counted once"
    assert set(grouped) == {
        name for name, counters in needs.items() if name != "clock" and _fits(counters)
    }
    for group in groups:
        counters = frozenset().union(*(needs[name] for name in group))
        assert _fits(counters)
        assert group[0] == "clock" or not _fits(needs[group[0]] | clock)
        assert "clock" not in group[1:]
        places = [int(name.removeprefix("metric")) for name in group if name != "clock"]
        assert places == sorted(places), "in the order of the request"
        assert places
    alone = [any(_fits(counters | needs[name]) for name in needs) for counters in wanted]
    assert len(groups) <= len(alone)


def test_groups_of_cupti_take_one_pass_on_every_architecture() -> None:
    with real_host() as host:
        for chip in {"TU102", "GA100", "GH100", "GB202"} & {*host.chips()}:
            for name in ("basic", "source"):
                planned = plan(host, chip, SETS.get(name).sections)
                runs = runs_of(host, planned)
                assert {host.passes(chip, run).count for run in runs} == {1}
                counted = {metric for run in runs for metric in run}
                alone = [one.name for one in planned.metrics if one.name not in counted]
                assert all(host.passes(chip, [metric]).count > 1 for metric in alone)
                assert len(alone) < 0.15 * len(planned.metrics)
                assert len(runs) <= planned.passes + 3  # CUPTI may split metrics, runs cannot
                # Instrumented code is counted without the clock.
                assert all(run[:2] == [*COMMON] for run in runs if "_sass_" not in run[-1])


def test_links_are_runs_of_their_own() -> None:
    with real_host() as host:
        words = ["sm__inst_executed.sum", "pcie__read_bytes.sum"]
        planned = plan(host, "GH100", words=words)
        if len(planned.sessions) > 1:  # before CUPTI 12.8, they are counted together
            assert runs_of(host, planned) == [[*COMMON, words[0]], [words[1]]]


def test_a_duration_without_metrics_that_fit_beside_it_has_a_run() -> None:
    with real_host() as host:
        throughput = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
        for other in (throughput, "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"):
            runs = runs_of(host, plan(host, "GH100", words=[COMMON[0], other]))
            assert runs[0] == [*COMMON]
            assert runs[1:] == ([] if other == throughput else [[other]])
