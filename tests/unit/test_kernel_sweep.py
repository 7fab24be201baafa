"""The numbers and plots of sweeps: those of Nsight Compute's rooflines, and hostile names."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support import ncu_captures
from support.json_schema import violations

import warpline
from warpline.derived.efficiency.shape_launches import joined, shape_launches
from warpline.documents import kernel_sweep
from warpline.render import Options
from warpline.render.sweep import bars, page
from warpline.render.sweep.axes import linear, logarithmic
from warpline.render.sweep.kernel_look import LOOK
from warpline.result import Result
from warpline.sweep.points import Parameter
from warpline.sweep.state import Attempt, Definition, State
from warpline.trace import Trace


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return warpline.open(ncu_captures.unpack("target", tmp_path_factory.mktemp("sweep")))


def facts(trace: Trace, *, top: int = 0, runs: int = 1, failed: bool = False) -> dict[str, Any]:
    definition = Definition("kernels", ("x", "{N}"), (Parameter("N", ("1", "2")),), repeats=runs)
    made = {(0, run): Attempt(("point-1",), None, 1.0) for run in range(runs)}
    if failed:
        made[1, 0] = Attempt((), "out of GPU memory", 2.0)
    return kernel_sweep.facts(State(definition, made), Path(), lambda _: trace, top)


def test_numbers_are_those_of_the_roofline(report: Trace) -> None:
    rows = warpline.stats(report, "kernel_roofline").to_polars().to_dicts()
    point, missing = facts(report)["points"]
    kernels = point["kernels"]
    assert missing["failure"] == "not run yet"
    assert sum(kernel["launches"] for kernel in kernels) == len(rows)
    assert sum(kernel["time_ratio"] for kernel in kernels) == pytest.approx(1)
    for kernel in kernels:
        own = [row for row in rows if row["kernel"] == kernel["kernel"]]
        if len(own) != kernel["launches"]:
            continue  # the kernel has several shapes
        duration = np.median([row["duration_ns"] for row in own])
        assert kernel["duration_ns"] == duration
        moved = np.median([row["dram_bytes"] for row in own])
        assert kernel["bytes_per_s"] == pytest.approx(moved / duration * 1e9)
        if kernel["flop"] is not None:
            flop = np.median([row["flop"] for row in own])
            assert kernel["flop_per_s"] == pytest.approx(flop / duration * 1e9)
            assert kernel["intensity"] == pytest.approx(flop / moved)
        if len(own) == 1:
            assert kernel["roof"] == own[0]["roof"]
            assert kernel["roof_ratio"] == pytest.approx(own[0]["share_ratio"])


@pytest.mark.parametrize("top", [0, 1])
def test_json_is_as_its_schema_says(report: Trace, repository: Path, top: int) -> None:
    schema = json.loads(
        (repository / "docs" / "kernels-sweep.schema.json").read_text(encoding="utf-8")
    )
    for failed in (False, True):
        assert violations(facts(report, top=top, failed=failed), schema) == []


def test_runs_of_a_point_count_together(report: Trace) -> None:
    once, twice = shape_launches(report), joined([shape_launches(report)] * 2)
    assert [one.count * 2 for one in once] == [one.count for one in twice]
    first = facts(report)["points"][0]["kernels"]
    both = facts(report, runs=2)["points"][0]["kernels"]
    assert [of["duration_ns"] for of in first] == [of["duration_ns"] for of in both]


def test_tables_have_a_row_for_each_point(report: Trace) -> None:
    known = facts(report, top=1, failed=True)
    (result,) = kernel_sweep.document(known, is_screen=True).sections
    assert isinstance(result, Result)
    rows = result.to_polars().to_dicts()
    assert [row["N"] for row in rows] == [1, 2]
    assert [row["duration_ns"] is None for row in rows] == [False, True]
    assert rows[1]["kernel"] == "not measured: out of GPU memory"
    assert "--top 0 shows all" in " ".join(result.notes)
    (whole,) = kernel_sweep.document(facts(report), is_screen=False).sections
    assert isinstance(whole, Result)
    assert {*result.columns} < {*whole.columns}
    assert whole.to_polars()["failure"].to_list()[-1] == "not run yet"


def plain(values: dict[str, list[Any]], *, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return facts of points that vary together."""
    rows = zip(*values.values(), strict=True)
    points = [
        {
            "values": dict(zip(values, row, strict=True)),
            "failure": None,
            "kernels": [
                {
                    "short_name": names[place % len(names)] if names else "k",
                    "duration_ns": 1000.0 * 4**place,
                    "flop_per_s": 1e12,
                    "bytes_per_s": 1e11,
                    "intensity": 10.0,
                    "roof": "DRAM",
                    "roof_ratio": 0.5,
                    "ceilings": {"DRAM": 3e12, "FP32": 6e13},
                    "metrics": {"sm__inst_executed.sum": 12345678.0},
                }
            ],
        }
        for place, row in enumerate(rows)
    ]
    return {"gpu": None, "vary": values, "zip": True, "points": points, "notes": []}


@pytest.mark.parametrize(
    "values",
    [
        {"N": [1]},
        {"N": [1, 2]},
        {"N": [-4, 0, 4]},
        {"N": [0.25, 0.5, 4096]},
        {"T": ["a", "b"]},
        {"T": ["a", "b"], "N": [1, 2]},
        {"N": [5, 5.0]},
    ],
)
def test_any_parameters_can_be_plotted(values: dict[str, list[Any]]) -> None:
    known = plain(values)
    out = io.StringIO()
    page.write(known, out, LOOK, is_page=False)
    picture = ET.fromstring(out.getvalue())
    circles = [of for of in picture.iter() if of.tag.endswith("circle")]
    assert len(circles) == 4 * len(known["points"])
    for circle in circles:
        assert 0 <= float(circle.get("cx", "")) <= 460
        assert 0 <= float(circle.get("cy", "")) <= 300
    bars.write_bars(known, out, Options(), LOOK)


def test_a_plot_without_numbers_says_so() -> None:
    known = plain({"N": [1, 2]})
    for point in known["points"]:
        point["kernels"], point["failure"] = [], "exit status 1"
    out = io.StringIO()
    page.write(known, out, LOOK, is_page=True)
    assert "No point was measured." in out.getvalue()
    assert out.getvalue().count("Not measured: exit status 1") == 2


def test_hostile_names_are_texts() -> None:
    evil = "</title><script>alert(1)</script>\x1b[31m"
    known = plain({"N": [1, 2], "T": [evil, "b"]}, names=(evil,))
    known["points"][0]["kernels"] = []
    known["points"][0]["failure"] = evil
    for is_page in (True, False):
        out = io.StringIO()
        page.write(known, out, LOOK, is_page=is_page)
        assert "<script" not in out.getvalue()
        assert "\x1b" not in out.getvalue()
        if not is_page:
            ET.fromstring(out.getvalue())
    out = io.StringIO()
    bars.write_bars(plain({"T": [evil, "b"]}), out, Options(width=80), LOOK)
    assert "\x1b" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_bars_fit_and_tell_their_scale() -> None:
    out = io.StringIO()
    bars.write_bars(plain({"N": [1, 2, 3, 4]}), out, Options(width=80, unicode=False), LOOK)
    lines = out.getvalue().splitlines()
    assert lines[1] == "Time of a launch, logarithmic"
    lengths = [line.count("#") for line in lines[2:6]]
    assert lengths == sorted(lengths)
    assert lengths[0] >= 1
    assert {re.sub(r"#+", "#", line) for line in lines[8:]} == {
        f"  N={n}" + " " * 22 + "     50.0%  #" for n in (1, 2, 3, 4)
    }


@pytest.mark.parametrize(("least", "most"), [(0, 1), (0, 97), (0, 1e-9), (0, 3e12), (0, 0)])
def test_linear_axes_reach_the_value(least: float, most: float) -> None:
    axis = linear(least, most)
    assert axis.most >= most
    assert 2 <= len(axis.ticks) <= 8
    assert axis.share(axis.least) == 0
    assert axis.share(axis.most) == 1


@pytest.mark.parametrize(("least", "most"), [(1, 1), (0.3, 5), (1e-12, 1e15)])
def test_logarithmic_axes_hold_the_values(least: float, most: float) -> None:
    axis = logarithmic(least, most)
    assert axis.least <= least <= most <= axis.most
    assert 2 <= len(axis.ticks) <= 8
