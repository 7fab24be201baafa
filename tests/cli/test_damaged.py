"""What every command says of a recording of which a column is damaged."""

from __future__ import annotations

import json
import lzma

import pytest
from support import flips

PLACE = "kernel/grid_x"


def damaged(data_dir, path, place):
    content = lzma.decompress((data_dir / "faults" / "casts.fixed.warpline.xz").read_bytes())
    area = next(area for area in flips.areas(content) if area[:2] == ("values", f"{place}.npy"))
    path.write_bytes(flips.Flip("values", place, area[2], 3).applied(content))
    return str(path)


@pytest.fixture
def file(data_dir, tmp_path):
    return damaged(data_dir, tmp_path / "run.warpline", PLACE)


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "-r", "cuda_gpu_kern_gb_sum"),
        ("stats", "-r", "cuda_gpu_trace", "--format", "json"),
        ("stats", "-r", "cuda_gpu_kern_gb_sum", "--debug"),
        ("analyze",),
        ("analyze", "--format", "json"),
        ("export", "-t", "warpline", "-o", "{folder}/again.warpline"),
        ("export", "-t", "sqlite", "-o", "{folder}/again.sqlite"),
        ("report", "-o", "{folder}/report.html"),
        ("view", "--no-browser"),
    ],
)
def test_what_needs_it_is_one_line_and_a_hint(run, file, tmp_path, words):
    before = {*tmp_path.iterdir()}
    done = run(words[0], file, *(word.format(folder=tmp_path) for word in words[1:]))
    assert done.status == 1
    said = [line for line in done.err.splitlines() if line.startswith(("error:", "hint:"))]
    assert len(said) == 2
    assert f"{file}: {PLACE} is damaged: its checksum does not match" in said[0]
    assert PLACE in said[1]
    assert {*tmp_path.iterdir()} == before
    assert ("Traceback" in done.err) == ("--debug" in words)


def test_a_query_that_needs_it_is_one_line(run, file):
    done = run("query", file, "SELECT max(gridX) FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert (done.status, done.out) == (1, "")
    assert f"{PLACE} is damaged" in done.err


@pytest.mark.parametrize("words", [(), ("summary",), ("stats", "-r", "cuda_gpu_kern_sum,nvtx_sum")])
def test_what_does_not_need_it_works(run, file, words):
    done = run(*words[:1], file, *words[1:])
    assert done.status == 0
    assert "error" not in done.err
    assert done.out


def test_of_several_tables_those_that_need_it_are_marked(run, file):
    names = "nvtx_sum,cuda_gpu_kern_gb_sum,cuda_gpu_trace"
    done = run("stats", file, "-r", names, "--format", "json")
    assert done.status == 1
    assert f"error: cuda_gpu_kern_gb_sum, cuda_gpu_trace: {file}: {PLACE} is damaged" in done.err
    printed = json.loads(done.out)
    assert [table["name"] for table in printed["tables"]] == ["nvtx_sum"]
    marked = {item["table"]: item["reason"] for item in printed["skipped"]}
    assert marked.keys() == {"cuda_gpu_kern_gb_sum", "cuda_gpu_trace"}
    assert all(f"{PLACE} is damaged" in reason for reason in marked.values())


def test_without_the_core_it_is_refused_alike(start, file):
    done = start("stats", "-r", "cuda_gpu_kern_gb_sum", file, WARPLINE_NATIVE="0")
    assert done.returncode == 1
    assert f"{PLACE} is damaged: its checksum does not match".encode() in done.stderr


def test_a_column_that_names_need_costs_the_tables_with_names(run, data_dir, tmp_path):
    file = damaged(data_dir, tmp_path / "run.warpline", "string/blob")
    done = run("stats", file, "-r", "nvtx_sum,cuda_gpu_kern_sum")
    assert done.status == 1
    assert done.err.count("string/blob is damaged") == 1
