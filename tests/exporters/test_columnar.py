"""Parquet, Arrow and JSON: the rows of every table, in whichever form."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import warpline
from warpline.schema import TABLES
from warpline.trace import MemorySource, Trace

READ = {"parquet": pl.read_parquet, "arrow": pl.read_ipc}


@pytest.fixture
def trace(capture):
    return warpline.open(capture("rich_metrics_sampling"))


@pytest.mark.parametrize("kind", READ)
def test_each_table_is_a_file(trace, tmp_path, kind):
    folder = warpline.export(trace, tmp_path / "run", kind)
    assert {item.name for item in folder.iterdir()} == {f"{name}.{kind}" for name in trace.tables}
    for name in trace.tables:
        assert READ[kind](folder / f"{name}.{kind}").equals(trace[name]), name


def test_a_folder_with_files_is_left_alone(trace, tmp_path):
    folder = warpline.export(trace, tmp_path / "run", "parquet", tables=["kernel"])
    mine = folder / "mine.txt"
    mine.write_text("kept", encoding="utf-8")
    with pytest.raises(warpline.UsageError, match="exists"):
        warpline.export(trace, folder, "parquet")
    warpline.export(trace.window(0, 0), folder, "parquet", tables=["kernel"], overwrite=True)
    assert pl.read_parquet(folder / "kernel.parquet").height == 0
    assert mine.read_text(encoding="utf-8") == "kept"
    with pytest.raises(warpline.UsageError, match="is a file"):
        warpline.export(trace, mine, "parquet", overwrite=True)


def test_json_holds_every_row(trace, tmp_path, monkeypatch):
    monkeypatch.setattr("warpline.exporters.json._BLOCK_ROWS", 100)
    found = json.loads(warpline.export(trace, tmp_path / "run.json", "json").read_bytes())
    assert [item["name"] for item in found["tables"]] == list(trace.tables)
    for item in found["tables"]:
        frame = trace[item["name"]]
        assert item["columns"] == frame.columns
        assert [tuple(row) for row in item["rows"]] == frame.rows()
    assert found["recording"]["producer"] == trace.meta.producer


def test_json_writes_no_number_that_json_does_not_know(tmp_path):
    table: dict[str, list[Any]] = {
        "time_ns": [1, 2],
        "metric_id": [0, 0],
        "value": [float("nan"), 1.5],
    }
    names: dict[str, list[Any]] = {"name": ["<b>\u2028"]}
    source = MemorySource({"counter": table, "metric": names})
    text = warpline.export(Trace(source), tmp_path / "a.json", "json").read_text("utf-8")
    assert "NaN" not in text
    values = [row[-1] for item in json.loads(text)["tables"][:1] for row in item["rows"]]
    assert values == [None, 1.5]


@pytest.mark.parametrize("kind", [*READ, "json", "sqlite", "warpline"])
def test_tables_bring_what_they_refer_to(trace, tmp_path, kind):
    path = warpline.export(trace, tmp_path / "run", kind, tables=["range_payload"])
    if kind in READ:
        events = {item.stem for item in path.iterdir()} - {"range_payload"}
        assert {name for name in events if TABLES[name].order} == {"range", "mark"}
    elif kind == "json":
        found = [item["name"] for item in json.loads(path.read_bytes())["tables"]]
        assert "mark" in found
        assert "kernel" not in found
    else:
        assert warpline.open(path).row_count("range") == trace.row_count("range")
        assert not warpline.open(path).has("kernel") or not warpline.open(path).row_count("kernel")
