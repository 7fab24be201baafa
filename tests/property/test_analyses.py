"""Properties of all registered analyses; new ones are covered automatically."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces, empty_trace

from warpline import api, plugins
from warpline.result import ANALYSES, Analysis, Result, Skipped
from warpline.trace import MemorySource, Trace
from warpline.units import Unit

plugins.load("analyses")

EVERY = list(ANALYSES)
# Each analysis as users may call it: alone, and with each of its arguments.
CALLS = [
    f"{item.name}{argument}"
    for item in EVERY
    for argument in ("", *(f":{a}" for a in item.arguments if "=" not in a))
]
SUFFIX = {
    Unit.NS: "ns",
    Unit.BYTES: "bytes",
    Unit.BYTES_PER_S: "bytes_per_s",
    Unit.RATIO: "ratio",
    Unit.HZ: "hz",
    Unit.WATTS: "w",
    Unit.JOULES: "j",
    Unit.CELSIUS: "c",
}
HEADINGS = ("What it measures", "Why it matters", "How it is computed", "Limits", "Source")
MOMENTS = {"start", "end", "time", "first", "last"}
# Summaries that count each event of the tables once.
SUMMED = {
    ("cuda_api_sum",): ("api_call",),
    ("osrt_sum",): ("os_call",),
    ("cuda_gpu_kern_sum",): ("kernel",),
    ("cuda_gpu_kern_gb_sum",): ("kernel",),
    ("cuda_gpu_mem_time_sum",): ("memcpy", "memset"),
    ("cuda_gpu_sum",): ("kernel", "memcpy", "memset"),
    ("cuda_api_gpu_sum",): ("api_call", "kernel", "memcpy", "memset"),
    ("nvtx_sum",): ("range",),
    ("nvtx_pushpop_sum", "nvtx_startend_sum"): ("range",),
}
few = settings(max_examples=25)


def results(trace: Trace) -> dict[str, Result]:
    """Return every table of the trace."""
    outcomes = {call: api.run(trace, call) for call in CALLS}
    return {call: item for call, item in outcomes.items() if isinstance(item, Result)}


def name_of(item: Analysis) -> str:
    return item.name


# Making all tables of a trace takes most of the time: these are checked on the same ones.
@few
@given(any_traces())
def test_tables_are_what_they_say_and_the_same_when_computed_again(any_trace: AnyTrace) -> None:
    trace = any_trace.trace()
    found = results(trace)
    have_the_declared_fields_and_a_key(found)
    have_ratios_that_are_ratios(found)
    have_statistics_that_agree(found)
    sum_up_all_events(trace, found)
    again = results(trace)
    assert {c: r.rows() for c, r in found.items()} == {c: r.rows() for c, r in again.items()}


def have_the_declared_fields_and_a_key(found: dict[str, Result]) -> None:
    for call, result in found.items():
        note(call)
        declared = ANALYSES.get(call.split(":", maxsplit=1)[0]).fields
        assert result.name == call
        assert result.fields[: len(declared)] == declared
        assert {*result.key} <= {field.name for field in result.fields}


def have_ratios_that_are_ratios(found: dict[str, Result]) -> None:
    for call, result in found.items():
        for field in result.fields:
            if field.unit is Unit.RATIO:
                note(f"{call}.{field.name}")
                values: list[Any] = result.columns[field.name].to_list()
                assert all(0 <= v <= 1 for v in values if v is not None)


def have_statistics_that_agree(found: dict[str, Result]) -> None:
    for call, result in found.items():
        values = {name: column.to_list() for name, column in result.columns.items()}
        for unit in ("ns", "bytes"):
            ordered = [f"{name}_{unit}" for name in ("min", "median", "p95", "p99", "max")]
            if not {*ordered, f"mean_{unit}", f"total_{unit}", "instances"} <= values.keys():
                continue
            note(call)
            for row in zip(*(values[name] for name in ordered), strict=True):
                assert row == tuple(sorted(row))
            means: list[Any] = values[f"mean_{unit}"]
            counts: list[Any] = values["instances"]
            sums = [mean * count for mean, count in zip(means, counts, strict=True)]
            assert sums == pytest.approx(values[f"total_{unit}"])


def sum_up_all_events(trace: Trace, found: dict[str, Result]) -> None:
    for names, tables in SUMMED.items():
        summed = [found[name] for name in names if name in found]
        rows = [row for result in summed for row in zip(*_totals(result), strict=True)]
        lengths = [length for table in tables for length in _lengths_ns(trace, table)]
        assert sum(total for total, _ in rows) == sum(lengths)
        assert sum(count for _, count in rows) == len(lengths)


def _totals(result: Result) -> list[list[Any]]:
    return [result.columns[name].to_list() for name in ("total_ns", "instances")]


def _lengths_ns(trace: Trace, table: str) -> list[int]:
    columns = trace.columns(table, "start_ns", "end_ns")
    spans = zip(columns["start_ns"].to_list(), columns["end_ns"].to_list(), strict=True)
    return [end - start for start, end in spans]


@few
@given(any_traces(), st.integers(-(10**15), 10**15))
def test_moving_all_times_moves_moments_and_nothing_else(any_trace: AnyTrace, by_ns: int) -> None:
    before, after = results(any_trace.trace()), results(any_trace.shifted(by_ns).trace())
    assert before.keys() == after.keys()
    for call, result in before.items():
        note(call)
        for field in result.fields:
            values: list[Any] = result.columns[field.name].to_list()
            if field.unit is Unit.NS and field.name.split("_")[0] in MOMENTS:
                values = [v if v is None else v + by_ns for v in values]
            assert after[call].columns[field.name].to_list() == values, field.name


@few
@given(any_traces(), st.integers(0, 2**32))
def test_the_order_of_the_rows_in_the_file_does_not_matter(any_trace: AnyTrace, seed: int) -> None:
    before, after = results(any_trace.trace()), results(any_trace.permuted(seed).trace())
    assert before.keys() == after.keys()
    for call, result in before.items():
        note(call)
        assert after[call].rows() == result.rows()


@pytest.mark.parametrize("call", CALLS)
def test_recorded_but_empty_tables(call: str) -> None:
    outcome = api.run(empty_trace(), call)
    if ANALYSES.get(call.split(":", maxsplit=1)[0]).needs:
        assert isinstance(outcome, Skipped)
        assert "were recorded" not in outcome.reason


@pytest.mark.parametrize("item", [item for item in EVERY if item.needs], ids=name_of)
def test_what_was_never_recorded_is_skipped_and_says_how_to_record_it(item: Analysis) -> None:
    outcome = api.run(Trace(MemorySource({})), item.name)
    assert isinstance(outcome, Skipped)
    assert "were recorded" in outcome.reason
    assert outcome.hint, "missing_hint should say how to record what it needs"


@pytest.mark.parametrize("item", EVERY, ids=name_of)
def test_documentation_has_the_five_headings_in_order(item: Analysis) -> None:
    found = re.findall(r"^ *([A-Z][a-z ]+): +\S", item.doc, flags=re.MULTILINE)
    assert tuple(name for name in found if name in HEADINGS) == HEADINGS
    assert item.doc.partition("\n")[0].strip(), "the first line says what the table is"


@pytest.mark.parametrize("item", EVERY, ids=name_of)
def test_fields_are_documented_and_carry_their_unit(item: Analysis) -> None:
    names = [field.name for field in item.fields]
    assert len({*names}) == len(names)
    for field in item.fields:
        assert field.doc.endswith("."), field.name
        for unit, suffix in SUFFIX.items():
            carries = field.name == suffix or field.name.endswith(f"_{suffix}")
            assert (field.unit is unit) == carries, f"{field.name} is {field.unit}"


def test_default_tables_have_distinct_places() -> None:
    ranks = [item.default_rank for item in EVERY if item.default_rank is not None]
    assert len({*ranks}) == len(ranks)
    assert ranks, "`stats` prints nothing when no table is named"
