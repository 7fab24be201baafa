"""Launches whose clock changed between passes are marked on the pages of `warpline kernels`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from support.counter_runs import CLOCK, A, B, run
from support.small_documents import rendered

from warpline import api
from warpline.documents import kernel_sums
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_pages import launches
from warpline.render.kernel_listings import write_json
from warpline.render.kernel_pages import write_details, write_raw_csv
from warpline.trace import Trace
from warpline.trace.counter_runs import merge_runs

TIME = "gpu__time_duration.sum"


def with_clocks(*clocks: Sequence[float]) -> Trace:
    """Return the launches a and b, with the clock of both in each pass."""
    runs = [
        run([A, B], clock, **{TIME if not place else f"m{place}": 1.0})
        for place, (clock,) in enumerate(clocks)
    ]
    return merge_runs(runs, [TIME, CLOCK], clock=CLOCK)


def page(trace: Trace) -> str:
    out = io.StringIO()
    write_details(launches(trace, Choice()), out, is_scaled=True)
    return out.getvalue()


def test_pages_mark_launches():
    drifting = with_clocks([2e9], [1.9e9])
    assert (
        page(drifting).count("    Warning: SM clock changed by 5.0% between passes. Metrics") == 2
    )
    assert "Warning" not in page(with_clocks([2e9], [1.97e9]))
    assert "Warning" not in page(with_clocks([2e9]))
    out = io.StringIO()
    write_raw_csv(launches(drifting, Choice()), out, is_scaled=True)
    assert "drift" not in out.getvalue(), "columns are those of ncu"


def test_json_has_the_drift():
    for clocks, expected in (([2e9], [1.9e9]), 0.05), (([2e9],), None):
        out = io.StringIO()
        write_json(launches(with_clocks(*clocks), Choice()), out)
        assert [one["clock_drift_ratio"] for one in json.loads(out.getvalue())["kernels"]] == (
            [pytest.approx(expected)] * 2
        )


def test_the_summary_has_a_column_where_it_matters():
    def summary(trace: Trace) -> str:
        return rendered("text", kernel_sums.kernel_sums(trace, is_screen=True))

    text = summary(with_clocks([2e9], [1.9e9]))
    assert "Drift %" in text
    assert (
        "SM clock changed by up to 5.0% between the passes of 2 launches: metrics of different"
        " passes may not fit together"
    ) in " ".join(text.split())
    assert "Drift" not in summary(with_clocks([2e9], [1.97e9]))


def test_the_table_has_the_largest_drift():
    found = api.stats(with_clocks([2e9], [1.97e9]), "kernel_counter_spread").to_polars()
    assert found["clock_drift_max_ratio"].to_list() == pytest.approx([0.015] * 2)
