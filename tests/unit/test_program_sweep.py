"""The results of a sweep of a program: its table, plots, heat maps, and hostile names."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.json_schema import violations

import warpline
from warpline.documents import program_sweep, swept_program
from warpline.render import Options
from warpline.render.sweep import bars, heat, page
from warpline.render.sweep.program_look import LOOK
from warpline.result import Result
from warpline.sweep import predicting
from warpline.sweep.failures import OUT_OF_MEMORY
from warpline.sweep.points import parameter
from warpline.sweep.state import Attempt, Definition, State
from warpline.trace import MemorySource, Trace

GIB = 1 << 30


def made(step_ns: float | None, peak: int | None, **more: Any) -> Attempt:
    results = {
        "step_ns": step_ns,
        "steps": 20,
        "busy_ratio": 0.5,
        "finding": {"rule": "host-sync", "title": "CPU-GPU synchronization", "saving_ns": 1},
        predicting.PEAK: peak,
        predicting.LIMIT: 80 * GIB,
        "memory_source": "CUDA allocations, context included",
        "taken_memory_bytes": peak,
        "allocated_bytes": None,
        "gpu": "NVIDIA H100",
        "note": None,
    }
    return Attempt(("point-1.warpline",), None, 1.0, (), results | more)


def sweep(*vary: str, repeats: int = 1) -> State:
    parameters = tuple(map(parameter, vary))
    return State(Definition("program", ("./x",), parameters, repeats=repeats))


@pytest.fixture
def grid() -> State:
    """Two parameters: memory runs out at the largest of both, and one point was not run."""
    found = sweep("batch=1,2,4", "context=512,1024")
    for place, point in enumerate(found.points[:5]):
        size = int(point["batch"]) * int(point["context"])
        found.attempts[place, 0] = made(size * 1e3, 2 * GIB + size * 15 * (GIB >> 10))
    found.attempts[5, 0] = Attempt((), OUT_OF_MEMORY, 1.0)
    return found


def test_numbers_are_those_of_the_runs(repository: Path) -> None:
    found = sweep("batch=2,4", repeats=3)
    for run, step in enumerate((3e6, 1e6, 2e6)):
        found.attempts[0, run] = made(step, (run + 1) * GIB, busy_ratio=0.1 * run)
    known = program_sweep.facts(found, "{batch}*1000")
    schema = json.loads((repository / "docs" / "sweep.schema.json").read_text(encoding="utf-8"))
    assert violations(known, schema) == []
    point, missing = known["points"]
    assert (point["step_ns"], point["step_min_ns"], point["step_max_ns"]) == (2e6, 1e6, 3e6)
    assert point["items_per_s"] == pytest.approx(2000 / 2e-3)
    assert (point["peak_memory_bytes"], point["runs"]) == (3 * GIB, 3)
    assert point["busy_ratio"] == pytest.approx(0.1)
    assert (missing["failure"], missing["is_measured"]) == ("not run yet", False)
    assert known["gpu"] == "NVIDIA H100"


def test_the_table_has_what_is_known(grid: State) -> None:
    known = program_sweep.facts(grid, None)
    (result,) = program_sweep.document(known, is_screen=True).sections
    assert isinstance(result, Result)
    names = [field.name for field in result.fields]
    assert names == ["batch", "context", "step_ns", "peak_memory_bytes", "busy_ratio", "finding"]
    rows = result.to_polars().to_dicts()
    assert rows[0]["finding"] == "CPU-GPU synchronization"
    assert rows[-1]["finding"] == "not measured: out of GPU memory"
    notes = " ".join(result.notes)
    assert "1 of 6 points not measured." in notes
    # 78 of 80 GiB are there for 15 MiB of each item: 5324.8, of 512 or 1024 each.
    assert "Predicted to fit in 80.0 GiB with context=1024: batch up to 5" in notes
    assert "Measured: 2 fits, 4 does not." in notes
    (whole,) = program_sweep.document(known, is_screen=False).sections
    assert isinstance(whole, Result)
    assert "memory_limit_bytes" in [field.name for field in whole.fields]


def test_a_run_that_could_not_be_measured_is_a_row() -> None:
    found = sweep("batch=2,4")
    found.attempts[0, 0] = Attempt(("x",), None, 1.0, (), {"note": "not measured: damaged"})
    found.attempts[1, 0] = made(None, None)
    known = program_sweep.facts(found, "batch")
    assert [point["step_ns"] for point in known["points"]] == [None, None]
    (result,) = program_sweep.document(known, is_screen=True).sections
    assert isinstance(result, Result)
    assert "1 point: not measured: damaged" in result.notes
    for is_page in (True, False):
        page.write(known, io.StringIO(), LOOK, is_page=is_page)


def test_two_parameters_are_a_map(grid: State) -> None:
    known = program_sweep.facts(grid, "{batch}*{context}")
    out = io.StringIO()
    heat.write_grid(known, out, Options(width=80), LOOK)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines == [
        [],
        ["Items", "per", "second", "over", "context"],
        ["batch", "512", "1024"],
        *([b, "1M/s", "1M/s"] for b in ("1", "2")),
        ["4", "1M/s", "OOM"],
    ]
    out = io.StringIO()
    page.write(known, out, LOOK, is_page=False)
    picture = ET.fromstring(out.getvalue())
    texts = [of.text or "" for of in picture.iter() if of.tag.endswith("}text")]
    assert texts.count("OOM") == 3  # in the maps of throughput, step time and memory
    assert "Peak memory (batch down, context across)" in texts
    titles = [of.text for of in picture.iter() if of.tag.endswith("}title")]
    assert "batch=4 context=1024: out of GPU memory" in titles


@pytest.mark.parametrize("vary", [("a=1,2",), ("a=1", "b=1,2"), ("a=1,2", "b=1,2", "c=1,2")])
def test_other_sweeps_have_no_map(vary: tuple[str, ...]) -> None:
    found = sweep(*vary)
    for place in range(len(found.points)):
        found.attempts[place, 0] = made(1e6 + place, GIB)
    known = program_sweep.facts(found, None)
    out = io.StringIO()
    heat.write_grid(known, out, Options(), LOOK)
    assert out.getvalue() == ""
    assert heat.heat_maps(known, LOOK) == []
    bars.write_bars(known, out, Options(width=80, unicode=False), LOOK)
    assert "Step time" in out.getvalue()


def test_a_recording_is_measured_as_it_is_analyzed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path, *_) = sorted((repository / "src" / "warpline" / "data").glob("*pageable*"))
    assert swept_program.main([str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    whole = warpline.analyze(str(path))
    assert found["step_ns"] == whole.steps.median_ns
    assert (found["steps"], found["finding"]["rule"]) == (whole.steps.count, whole.findings[0].rule)
    assert 0 < found["busy_ratio"] < 1
    assert found["note"] is None
    assert swept_program.main([str(path), "nothing_*"]) == 0  # ranges that are not there
    found = json.loads(capsys.readouterr().out)
    assert found["step_ns"] is None
    assert "nothing_*" in found["note"]
    assert swept_program.main([str(path.parent / "missing.warpline")]) == 1
    assert "missing.warpline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("calls", "is_last"),
    [
        ([("cudaMalloc_v3020", 2)], True),
        ([("cuMemCreate", 2), ("cudaLaunchKernel", 0)], True),
        ([("cudaMalloc_v3020", 2), ("cudaMalloc_v3020", 0)], False),  # freed a cache meanwhile
        ([("cudaMalloc_v3020", 1)], False),
        ([("cudaLaunchKernel", 2)], False),
        ([], False),
    ],
)
def test_a_failed_allocation_at_the_end_is_lack_of_memory(
    calls: list[tuple[str, int]], *, is_last: bool
) -> None:
    rows = range(len(calls))
    table: dict[str, list[Any]] = {
        "start_ns": [10 * row for row in rows],
        "end_ns": [10 * row + 5 for row in rows],
        "process_id": [0 for _ in rows],
        "thread_id": [0 for _ in rows],
        "name": [name for name, _ in calls],
        "return_value": [value for _, value in calls],
    }
    trace = Trace(MemorySource({"process": {"pid": [7]}, "api_call": table}))
    assert swept_program.measured(trace)["has_failed_allocation"] is is_last


def test_hostile_names_are_texts() -> None:
    evil = "</title><script>alert(1)</script>\x1b[31m"
    found = sweep(f"T={evil},b", "N=1,2")
    for place in range(3):
        finding = {"rule": evil, "title": evil, "saving_ns": None}
        found.attempts[place, 0] = made(1e6, GIB, finding=finding, gpu=evil, note=evil)
    found.attempts[3, 0] = Attempt((), evil, 1.0)
    known = program_sweep.facts(found, None)
    for is_page in (True, False):
        out = io.StringIO()
        page.write(known, out, LOOK, is_page=is_page)
        assert "<script" not in out.getvalue()
        assert "\x1b" not in out.getvalue()
        if not is_page:
            ET.fromstring(out.getvalue())
    out = io.StringIO()
    heat.write_grid(known, out, Options(width=80), LOOK)
    assert "\x1b" not in out.getvalue()
