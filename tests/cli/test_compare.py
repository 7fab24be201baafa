"""``warpline compare`` on real recordings: exit status, formats, and numbers from plain SQL."""

from __future__ import annotations

import csv
import io
import itertools
import json
import lzma
import sqlite3
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from support.json_schema import violations
from support.kernel_counters import IDLE, trace

import warpline
from warpline.trace import MemorySource, Trace, recording

SCREEN = """\
pageable_h2d.fixed.sqlite compared with pageable_h2d.bad.sqlite
  Faster: 84.3% less time (81.4 to 86.7%), 17.4 ms to 2.74 ms per step. 98% of it is copy-h2d
  (host-to-device copies) in data; fixed: pageable-copy.

Before: 5 steps (step_*). After: 5 steps (step_*).

  per step               before    after  difference
  before                17.4 ms                       ████████████████████████████████████████
  copy-h2d              14.5 ms   242 us    -14.3 ms         ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
  pageable-copy (idle)   246 us     0 ns     -246 us        ░░
  copy-d2d              65.1 us     0 ns    -65.1 us        ░
  dependency (idle)     35.4 us     0 ns    -35.4 us        ░
  all others            2.50 ms  2.49 ms    -5.70 us        ░
  after                          2.74 ms    -14.7 ms  ███████
"""
# What was repaired in a pair of recordings, and the part of the step that it is about.
PAIRS = {
    "allocator": ("allocator", "allocator"),
    "casts": ("cast-copies", "cast-copy"),
    "collected": ("launch-bound", "launch-bound"),
    "epilogue": ("unfused-epilogue", "elementwise"),
    "fp32_matmul": ("no-tensor-cores", "gemm"),
    "layout_copies": ("layout-copies", "layout-copy"),
    "loader": ("input-bound", "input"),
    "recapture": ("graph-recapture", "graph-instantiation"),
    "starved": ("input-bound", "input"),
    "tiny_kernels": ("graph-opportunity", "launch-bound"),
}


@pytest.fixture(scope="module")
def pair(repository: Path):
    """The recordings of ``warpline demo``."""
    folder = repository / "src" / "warpline" / "data"
    return [str(folder / f"pageable_h2d.{state}.sqlite") for state in ("bad", "fixed")]


@pytest.fixture(scope="module")
def compared(pair):
    return warpline.compare(*pair)


@pytest.fixture(scope="module")
def unpacked(data_dir: Path, tmp_path_factory: pytest.TempPathFactory):
    """The path of a file below tests/data, decompressed."""
    folder = tmp_path_factory.mktemp("unpacked")

    def unpack(name: str) -> Path:
        target = folder / Path(name).name.removesuffix(".xz")
        target.write_bytes(lzma.decompress((data_dir / name).read_bytes()))
        return target

    return unpack


def test_the_screen(run, pair):
    done = run("compare", "-q", *pair)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(SCREEN)
    assert "fixed: Pageable copies block the CPU for 15.3 ms per step (pageable-copy)" in done.out
    assert "One run per side" in done.out


def sql_step_ns(path: str) -> float:
    """Return the mean period of all steps but the last: first operation to first operation."""
    database = sqlite3.connect(path)
    starts = []
    steps = database.execute(
        "SELECT start, LEAD(start, 1, end) OVER (ORDER BY start) FROM NVTX_EVENTS"
        " LEFT JOIN StringIds ON id = textId WHERE coalesce(text, value) GLOB 'step_[0-9]*'"
    ).fetchall()
    for low, high in steps:
        starts += database.execute(
            "SELECT MIN(op.start) FROM (SELECT start, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL"
            " UNION ALL SELECT start, correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            " UNION ALL SELECT start, correlationId FROM CUPTI_ACTIVITY_KIND_MEMSET) AS op"
            " JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call USING (correlationId)"
            " WHERE call.start >= ? AND call.start < ?",
            (low, high),
        ).fetchone()
    database.close()
    return fmean(b - a for a, b in itertools.pairwise(starts))


def test_the_bad_step_is_that_of_plain_sql(pair, compared):
    assert compared.step.before_ns == pytest.approx(sql_step_ns(pair[0]), abs=0.5)


def test_copied_bytes_are_those_of_plain_sql(pair, compared):
    database = sqlite3.connect(pair[0])
    total, count = database.execute(
        "SELECT SUM(bytes), COUNT(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 1"
    ).fetchone()
    database.close()
    copies = [item for item in compared.items if item.kind == "copy"]
    largest = max((item for item in copies if item.before), key=lambda item: item.before.bytes)
    assert largest.before.bytes / largest.before.count == pytest.approx(total / count)
    assert largest.before.shapes == ("Pageable to Device",)
    assert largest.after.shapes == ("Pinned to Device",)


def test_ranges_inside_steps_are_those_of_plain_sql(pair, compared):
    database = sqlite3.connect(pair[0])
    lengths = database.execute(
        "SELECT end - start FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
        " WHERE coalesce(text, value) = 'data' ORDER BY start"
    ).fetchall()
    database.close()
    (data,) = [item for item in compared.items if item.kind == "range" and item.name == "data"]
    assert data.before.ns == pytest.approx(fmean(ns for (ns,) in lengths[:-1]))
    assert (data.change, data.is_significant) == ("changed", True)


def test_items_of_a_category_sum_to_its_part(compared):
    for part in compared.parts:
        if part.kind == "busy":
            own = [item for item in compared.items if item.category == part.category]
            for side in ("before", "after"):
                ns = sum(getattr(item, side).ns for item in own if getattr(item, side))
                assert ns == pytest.approx(getattr(part, f"{side}_ns"), abs=1)


@pytest.mark.parametrize("name", PAIRS)
def test_the_repaired_part_is_the_top_contribution(name, unpacked):
    rule, part = PAIRS[name]
    before, after = (unpacked(f"faults/{name}.{state}.warpline.xz") for state in ("bad", "fixed"))
    found = warpline.compare(before, after)
    assert found.step is not None
    assert found.parts[0].category == part
    assert rule in [item.rule for item in found.findings if item.change == "fixed"]
    assert sum(item.delta_ns for item in found.parts) == found.step.delta_ns
    assert found.verdict != "slower"


def test_json_keeps_its_contract(run, pair, repository):
    schema = json.loads((repository / "docs" / "compare.schema.json").read_text(encoding="utf-8"))
    done = run("compare", "-f", "json", "--tables", "copy_sum", *pair)
    found = json.loads(done.out)
    assert violations(found, schema) == []
    step = found["step"]
    deltas = [part["delta_ns"] for part in found["parts"]]
    assert sum(deltas) == step["after_ns"] - step["before_ns"]
    assert step["low"] < step["ratio"] < step["high"] < 1
    assert [table["name"] for table in found["tables"]] == ["copy_sum:compared"]


def test_a_comparison_without_common_times_keeps_the_contract(repository):
    schema = json.loads((repository / "docs" / "compare.schema.json").read_text(encoding="utf-8"))
    kernel: dict[str, list[Any]] = {"start_ns": [0], "end_ns": [9], "name": ["k"]}
    for tables in ({}, {"kernel": kernel}):
        found = warpline.compare(*(Trace(MemorySource(tables)) for _ in range(2)))
        assert violations(json.loads(json.dumps(found.to_dict())), schema) == []
        assert found.verdict == "undecided"


def test_markdown_and_csv(run, pair):
    page = run("compare", "-f", "markdown", *pair).out
    assert page.startswith("## pageable\\_h2d.fixed.sqlite compared with")
    assert "| copy-h2d | 14.5 ms | 242 us | \\-14.3 ms |" in page
    assert "### CUDA API calls" in page
    rows = list(csv.DictReader(io.StringIO(run("compare", "-f", "csv", *pair).out)))
    assert rows[0]["Category"] == "copy-h2d"


def test_tables_are_compared_by_key(run, pair):
    done = run("compare", "-f", "csv", "--tables", "copy_sum", *pair)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    changes = {(row["Direction"], row["Memory"]): row["Change"] for row in rows}
    assert changes[("Host-to-Device", "Pageable to Device")] == "gone"
    assert changes[("Host-to-Device", "Pinned to Device")] == "new"
    unknown = run("compare", "--tables", "copy_summ", *pair)
    assert unknown.status == 2
    missing = run("compare", "-q", "--tables", "collective_waits", *pair)
    assert missing.status == 0
    assert "collective_waits" in missing.err


def test_a_notebook_shows_html_without_markup_from_names(compared):
    html = compared._repr_html_()
    assert "<strong>Faster: 84.3% less time" in html
    assert "<unnamed>" not in html
    assert str(compared).startswith("pageable_h2d.fixed.sqlite compared with")


def test_fail_on(run, pair):
    assert run("compare", "-q", "--fail-on", "5%", *pair).status == 0
    assert run("compare", "-q", "--fail-on", "5%", *reversed(pair)).status == 3
    same = run("compare", "-q", "--fail-on", "5%", pair[0], pair[0])
    assert same.status == 4


def test_both_forms_of_a_program_agree(pair, data_dir):
    bad = data_dir / "kineto" / "pageable_h2d.bad.json.gz"
    found = warpline.compare(pair[0], bad)
    assert found.verdict == "undecided"
    assert "different profilers" in found.sentence
    assert any("GPU operations are comparable" in text for text in found.limits)
    busy = [part for part in found.parts if part.category == "gemm"]
    assert busy[0].after_ns == pytest.approx(busy[0].before_ns, rel=0.02)
    kernels = [item for item in found.items if item.kind == "kernel"]
    assert {item.change for item in kernels} <= {"same", "changed"}


def test_recordings_of_ranks_are_one_run(unpacked):
    ranks = [unpacked(f"nsys/ddp_serial.bad.rank{rank}.sqlite.xz") for rank in (0, 1)]
    found = warpline.compare(ranks, ranks * 2)
    assert (found.before.runs, found.before.ranks) == (1, 2)
    assert (found.after.runs, found.after.ranks) == (2, 2)
    said = found.to_dict()
    assert {item["category"] for item in said["collectives"]} == {"collective"}
    assert all("nccl" in item["name"] for item in said["collectives"])
    assert not any(item["category"] == "collective" for item in said["kernels"])
    alone = warpline.compare(ranks[0], ranks)
    assert "different numbers of ranks (1 and 2)" in alone.sentence


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "two recordings are compared, 0 named"),
        (("a", "b", "c"), "two recordings are compared, 3 named"),
        (("--before", "a"), "name both sides"),
        (("a", "--before", "a", "--after", "b"), "name both sides"),
        (("nowhere.sqlite", "b"), "no such file"),
        (("--tolerance", "x", "a", "b"), "not a share"),
        (("--fail-on", "150%", "a", "b"), "not a share"),
    ],
)
def test_usage_errors(run, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(name).touch()
    done = run("compare", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_pairs_need_as_many_runs(run, pair):
    done = run("compare", "--paired", "--before", *pair, "--after", pair[0])
    assert done.status == 2
    assert "2 runs before cannot be paired with 1 after" in done.err


def test_calls_without_steps_are_not_counted():
    kernel: dict[str, list[Any]] = {
        "start_ns": [10, 70],
        "end_ns": [50, 90],
        "name": ["a", "b"],
        "correlation_id": [1, 2],
    }
    call: dict[str, list[Any]] = {
        "start_ns": [0, 60],
        "end_ns": [5, 65],
        "name": ["cudaLaunchKernel"] * 2,
        "correlation_id": [1, 2],
    }
    traces = [Trace(MemorySource({"kernel": kernel, "api_call": call})) for _ in range(2)]
    found = warpline.compare(*traces)
    assert "no steps were detected" in found.sentence
    assert {item.kind for item in found.items} == {"kernel"}


HOSTILE = "\x1b[2J<script>alert(1)</script>|\n`" * 3


def test_hostile_names_do_nothing():
    def trace(length):
        starts = [i * 1000 for i in range(20)]
        kernel: dict[str, list[Any]] = {
            "start_ns": starts,
            "end_ns": [start + length for start in starts],
            "name": [HOSTILE] * 20,
        }
        ranges: dict[str, list[Any]] = {
            "start_ns": starts,
            "end_ns": [s + 900 for s in starts],
            "name": [HOSTILE] * 20,
        }
        return Trace(MemorySource({"kernel": kernel, "range": ranges}))

    found = warpline.compare(trace(100), trace(800))
    assert "\x1b" not in str(found)
    html = found._repr_html_() or ""
    assert "\x1b" not in html
    assert "<script" not in html
    assert "&lt;script" in html


def test_a_name_of_megabytes_is_compared_quickly():
    name = "f<" * 500_000 + "(" * 500_000
    table: dict[str, list[Any]] = {
        "start_ns": [0, 100],
        "end_ns": [50, 150],
        "name": [name, name + "x"],
    }
    other: dict[str, list[Any]] = {
        "start_ns": [0, 100],
        "end_ns": [50, 150],
        "name": ["y" + name, "z"],
    }
    found = warpline.compare(
        Trace(MemorySource({"kernel": table})), Trace(MemorySource({"kernel": other}))
    )
    assert found.verdict == "undecided"


def test_versions_are_part_of_the_environment(data_dir):
    bad = data_dir / "kineto" / "pageable_h2d.bad.json.gz"
    facts = {fact.name: fact.after for fact in warpline.compare(bad, bad).environment}
    assert (facts["CUDA"], facts["CUDA runtime"]) == ("13.0", "13.0")


def test_the_clock_is_compared_where_it_was_sampled(unpacked):
    path = unpacked("nsys/rich_metrics_sampling.sqlite.xz")
    found = warpline.compare(path, path)
    facts = {fact.name: fact.after for fact in found.environment}
    assert facts["GPU clock"] == "1980 MHz"
    with sqlite3.connect(path) as database:
        (median,) = database.execute(
            "SELECT value FROM GPU_METRICS WHERE metricId = 0 ORDER BY value"
            " LIMIT 1 OFFSET (SELECT count(*) / 2 FROM GPU_METRICS WHERE metricId = 0)"
        ).fetchone()
    assert median == pytest.approx(1980e6, abs=1e6)  # idle times included
    (said,) = (text for text in found.limits if text.startswith("Not recorded"))
    assert "GPU clock" not in said


@pytest.fixture
def reports(tmp_path: Path) -> list[str]:
    """Counters of a kernel whose second launches are faster."""
    paths = []
    for state, us in (("bad", 100), ("fixed", 80)):
        launches = [IDLE | {"gpu__time_duration.sum": us * 1e3 + n} for n in (0, 90, 30)]
        path = tmp_path / f"{state}.warpline"
        recording.write_recording(trace(launches, columns={"name": ["kernel"] * 3}), path)
        paths.append(str(path))
    return paths


def test_counters_of_kernels(run, reports, repository, tmp_path):
    bad, fixed = reports
    shown = run("compare", bad, fixed)
    assert (shown.status, shown.err) == (0, "")
    assert "kernel takes 20.0% less time (100 us to 80.0 us per launch)." in shown.out
    name = "compare-kernels.schema.json"
    schema = json.loads((repository / "docs" / name).read_text(encoding="utf-8"))
    tables = ("--tables", "profiled_kernels")
    found = json.loads(run("compare", "-f", "json", *tables, bad, fixed).out)
    assert violations(found, schema) == []
    assert [table["name"] for table in found["tables"]] == ["profiled_kernels:compared"]
    (row,) = csv.DictReader(io.StringIO(run("compare", "-f", "csv", bad, fixed).out))
    assert (row["Change"], row["Kernel"], row["Before (ns)"]) == ("faster", "kernel", "100040")
    assert run("compare", "-f", "markdown", bad, fixed).out.startswith("## fixed.warpline compared")
    for limit, words, status in (("5%", (bad, fixed), 0), ("5%", (fixed, bad), 3)):
        assert run("compare", "--fail-on", limit, *words).status == status
    refused = run("compare", bad, str(repository / "src/warpline/data/pageable_h2d.bad.sqlite"))
    assert refused.status == 2
    assert "cannot be compared with a timeline" in refused.err
