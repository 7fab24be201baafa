"""``warpline list`` and ``warpline explain``."""

from __future__ import annotations

import json

import pytest

from warpline import api, plugins
from warpline.exporters import EXPORTERS
from warpline.render import RENDERERS
from warpline.result import ANALYSES
from warpline.schema import TABLES
from warpline.trace import READERS

for kind in ("analyses", "readers", "renderers"):
    plugins.load(kind)


def test_everything_registered_is_listed_on_one_line(run):
    lines = run("list").out.splitlines()
    firsts = {line.lstrip("* ").split(" ")[0] for line in lines}
    for registry in (ANALYSES, READERS, RENDERERS, EXPORTERS):
        assert firsts >= {*registry.names()}
    assert firsts >= {*TABLES}
    marked = [line[2:].split(" ")[0] for line in lines if line.startswith("* ")]
    assert sorted(marked) == sorted(api.default_tables())
    assert "* cuda_gpu_kern_sum (gpukernsum) " in "\n".join(lines)


def test_list_as_json(run):
    found = json.loads(run("list", "--format", "json").out)
    assert found["schema_version"] == 1
    table = next(item for item in found["tables"] if item["name"] == "cuda_gpu_kern_sum")
    assert table["aliases"] == ["gpukernsum"]
    assert table["is_default"]
    assert set(table["arguments"]) == {"base", "mangled", "nvtx-name"}
    assert [item["name"] for item in found["trace_tables"]] == list(TABLES)
    assert {item["name"] for item in found["formats"]} == {*RENDERERS.names()}
    assert {item["name"] for item in found["export_formats"]} == {*EXPORTERS.names()}


@pytest.mark.parametrize("item", list(ANALYSES), ids=lambda item: item.name)
def test_every_table_is_explained_whole(run, item):
    done = run("explain", item.name)
    assert (done.status, done.err) == (0, "")
    words = " ".join(done.out.split())
    for heading in ("What it measures", "Why it matters", "How it is computed", "Limits", "Source"):
        assert f"{heading} " in words
    for field in item.fields:
        assert f" {field.name} {' '.join(field.doc.split())}" in words
    for argument, doc in item.arguments.items():
        assert f"{item.name}:{argument} {doc}" in words
    assert max(map(len, done.out.splitlines())) <= 100
    tail = item.doc.split("Source:")[1].split()
    assert " ".join(tail) in words, "the documentation is shown to its end"


@pytest.mark.parametrize("spec", list(TABLES.values()), ids=lambda spec: spec.name)
def test_every_table_of_a_trace_is_explained(run, spec):
    words = " ".join(run("explain", spec.name).out.split())
    assert spec.doc in words
    for column in spec.columns:
        assert f" {column.name} {column.doc}" in words


def test_a_rule_is_explained_by_its_former_id(run):
    expected = run("explain", "input-bound")
    assert expected.status == 0
    assert expected.out.startswith("input-bound ")
    assert run("explain", "data-starved") == expected


def test_aliases_and_arguments_are_understood(run):
    expected = run("explain", "cuda_gpu_kern_sum")
    assert run("explain", "gpukernsum") == expected
    assert run("explain", "cuda_gpu_kern_sum:base") == expected


def test_rules_about_kernels_are_listed_and_explained(run):
    listed = json.loads(run("list", "-f", "json").out)["kernel_rules"]
    assert {"name": "bank-conflicts", "title": "Shared memory accesses have bank conflicts"} in (
        listed
    )
    for item in listed:
        done = run("explain", item["name"]).out
        assert done.startswith(f"{item['name']} (rule of warpline kernels): {item['title']}")
        for heading in ("What it finds", "How it is found", "What to do", "Limits", "Source"):
            assert f"\n{heading}" in done
    assert "Rules of warpline kernels" in run("list").out
