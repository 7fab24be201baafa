"""The Python API: paths in place of a trace, a trace as a mapping, conversions, errors."""

from __future__ import annotations

import builtins
import importlib.util
import traceback
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import warpline
from warpline.documents.report import content
from warpline.result import Result
from warpline.trace import MemorySource, Run, Trace

DEMO = Path(warpline.__file__).parent / "data" / "pageable_h2d.bad.sqlite"
FIXED = DEMO.with_name("pageable_h2d.fixed.sqlite")


@pytest.fixture(scope="module")
def trace():
    return warpline.open(DEMO)


@pytest.mark.parametrize("given", [DEMO, str(DEMO), [DEMO], (str(DEMO),)])
def test_a_path_is_as_good_as_a_trace(given):
    assert warpline.stats(given, "recording").rows() == warpline.stats(DEMO, "recording").rows()


def test_every_function_takes_a_path(trace, tmp_path):
    assert warpline.analyze(DEMO).steps.count == 5
    assert [section.name for section in warpline.summary(str(DEMO)).sections] == [
        section.name for section in warpline.summary(trace).sections
    ]
    assert warpline.query(DEMO, "SELECT count(*) AS n FROM kernel")["n"].to_list() == [120]
    assert warpline.export(DEMO, tmp_path / "run.warpline") == tmp_path / "run.warpline"
    assert warpline.select(DEMO, filter_time="/50ms").row_count("kernel") == (
        trace.window(None, 50_000_000).row_count("kernel")
    )


def test_reports_of_paths(tmp_path, monkeypatch):
    from warpline import api

    opened = []

    def content(run):
        opened.append(run.trace)
        return None, []

    monkeypatch.setattr("warpline.documents.report.content", content)
    monkeypatch.setattr("warpline.viewer.report.make_report", lambda *_, **__: Pieces())
    monkeypatch.setattr("warpline.viewer.serving.page_server", lambda given, *_, **__: given)
    warpline.report(DEMO, tmp_path / "run.html")
    assert warpline.timeline([DEMO]).html == "piece"
    assert isinstance(api.serve(str(DEMO)), Run)
    assert all(isinstance(item, Trace) for item in opened)


class Pieces:
    pieces = ("piece",)


def test_reports_show_the_chosen_steps():
    trace = warpline.open(DEMO)
    for steps, first, end in ((None, "step_0", ""), ("forward", "forward", ":name=forward")):
        _, tables = content(Run(trace, steps))
        shown = {item.result.name: item for item in tables}
        steps_of = shown[f"steps{end}"].result
        assert isinstance(steps_of, Result)
        assert steps_of.rows()[0][-1] == first
        assert shown[f"phases{end}"].command == f"warpline stats -r phases{end} {DEMO.name}"
        assert shown["cuda_api_sum"].command == f"warpline stats -r cuda_api_sum {DEMO.name}"


def test_several_paths_are_one_trace():
    assert warpline.open([DEMO, FIXED]).row_count("process") == 2
    assert warpline.open(DEMO, [FIXED]).row_count("process") == 2


@pytest.mark.parametrize("given", [None, 3, b"run.sqlite", {"a": 1}, [3]])
def test_anything_else_is_a_type_error(given):
    with pytest.raises(TypeError, match="expected a Trace, a path, or a list of paths, not"):
        warpline.stats(given, "cuda_gpu_kern_sum")


@pytest.mark.parametrize("given", [(), ([],)])
def test_nothing_is_no_recording(given):
    with pytest.raises(warpline.UsageError, match="no recording given"):
        warpline.open(*given)


def test_a_trace_is_a_mapping_of_its_tables(trace):
    assert "kernel" in trace
    assert "cpu_sample" not in trace
    assert 3 not in trace
    assert list(trace) == list(trace.tables)
    assert len(trace) == len(trace.tables)
    assert {name: trace[name].height for name in trace} == {
        name: trace.row_count(name) for name in trace.tables
    }
    assert trace._ipython_key_completions_() == list(trace)
    assert len(Trace(MemorySource({"kernel": {}}))) == 6  # with the dimensions


def test_a_trace_is_a_context_manager():
    with warpline.open(DEMO) as trace:
        assert isinstance(trace, warpline.Trace)
    assert trace.row_count("kernel") == 120
    with pytest.raises(KeyError), warpline.open(DEMO):
        raise KeyError


def test_results_convert(trace):
    result = warpline.stats(trace, "cuda_gpu_mem_time_sum")
    table = result.to_arrow()
    assert isinstance(table, pa.Table)
    assert table.column_names == [field.name for field in result.fields]
    assert table.num_rows == len(result) == 3
    assert result.to_pandas()["name"].tolist() == table["name"].to_pylist()


def test_types_do_not_depend_on_the_rows(trace):
    result = warpline.stats(trace, "cuda_gpu_mem_time_sum")
    full, empty = result.to_polars(), result.head(0).to_polars()
    assert full.schema == empty.schema
    assert full.schema["name"].is_(pl.String)
    assert full.schema["total_ns"].is_(pl.Int64)


@pytest.mark.parametrize(
    ("method", "missing", "message"),
    [
        ("to_arrow", {"pyarrow"}, "to_arrow requires pyarrow"),
        ("to_pandas", {"pandas"}, "to_pandas requires pandas"),
        ("to_pandas", {"pandas", "pyarrow"}, "to_pandas requires pandas and pyarrow"),
    ],
)
def test_a_missing_extra_is_named(trace, monkeypatch, method, missing, message):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in missing else real(name)
    )
    with pytest.raises(warpline.UsageError) as caught:
        getattr(warpline.stats(trace, "cuda_gpu_mem_time_sum"), method)()
    assert caught.value.message == message
    assert caught.value.hint == "install with: pip install 'warpline[pandas]'"


def test_a_traceback_shows_the_hint(trace):
    with pytest.raises(warpline.UsageError) as caught:
        warpline.stats(trace, "cuda_gpu_kern_sun")
    shown = "".join(traceback.format_exception_only(caught.value))
    assert "Hint: did you mean cuda_gpu_kern_sum" in shown
    assert str(caught.value) == "unknown table 'cuda_gpu_kern_sun'"


def test_every_public_name_loads_and_is_declared():
    assert "SchemaError" in warpline.__all__
    assert set(warpline.__all__) == set(warpline._PUBLIC)
    for name in warpline.__all__:
        assert getattr(warpline, name) is not None
    assert issubclass(warpline.SchemaError, warpline.WarplineError)
    assert not {*warpline.__all__} & {*dir(builtins)} - {"open"}


def test_types_are_declared(trace):
    """The checker of types reads this."""
    names: list[str] = list(trace)
    frame: pl.DataFrame = warpline.stats([DEMO], "kernel_sum").to_polars()
    part: warpline.Trace = warpline.select(trace, device=0)
    assert names
    assert frame.height == 15
    assert part.row_count("kernel") == 120
