"""``warpline kernels`` on a report of five launches."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Run
from support import ncu_captures
from support.json_schema import violations
from support.kernel_counters import trace
from support.programs import Program

from warpline.hardware.measured import saved_file
from warpline.trace import recording

GPU = "NVIDIA H200"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(ncu_captures.unpack("target", tmp_path_factory.mktemp("ncu")))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_the_details_page_is_the_default(run: Run, report: str) -> None:
    printed = ncu_captures.printed("target", "details.txt")
    assert run("kernels", "-i", report, "--page", "details") == (0, printed, "")
    for words in ((report,), ("--import", report)):
        outcome = run("kernels", *words)
        assert (outcome.status, outcome.err) == (0, "")
        assert outcome.out.startswith(printed), "what ncu prints, then what we find"


def test_findings_follow_the_details(run: Run, report: str) -> None:
    found = run("kernels", report, "-k", "regex:smem").out
    assert found.endswith(
        """
smem_conflict (1024, 1, 1) x (256, 1, 1): 532 us
  F1  high   Shared memory accesses have bank conflicts
             96.9% of the wavefronts of shared memory are conflicts: an access takes 31.8 wavefronts
             for each that it needs.
             At: kernels.cuh:34 (100.0% of the excess wavefronts)
             Time: 532 us -> 26.2 us (between 23.3 us and 33.5 us), then limited by issue slots
             Fix: Pad the rows of shared tiles by one element ([32][33]), or swizzle the column
                  index.
"""
    )
    summary = run("kernels", report, "--page", "summary", "-k", "regex:smem").out
    assert summary.endswith(found.rpartition("\n\n")[2])
    for words in (("--csv",), ("--page", "raw"), ("--section", "LaunchStats")):
        assert "Fix:" not in run("kernels", report, *words).out


def test_the_format_by_its_name(run: Run, report: str) -> None:
    page = ("kernels", report, "--page", "raw", "-c", "1", "--metrics", "launch__grid_size")
    for name in ("csv", "json"):
        assert run(*page, "--format", name) == run(*page, f"--{name}")
    assert run(*page, "--format", "text") == run(*page)
    assert "text, csv or json" in run(*page, "--format", "html").err


def test_findings_in_json(run: Run, report: str) -> None:
    kernels = json.loads(run("kernels", report, "--json").out)["kernels"]
    by_name = {kernel["name"].partition("(")[0]: kernel["findings"] for kernel in kernels}
    (first,) = by_name["smem_conflict"]
    assert [*first][:6] == [
        *("rule", "title", "severity", "saving_ns", "saving_low_ns", "saving_high_ns")
    ]
    assert (first["rule"], first["severity"]) == ("bank-conflicts", "high")
    (line,) = first["lines"]
    assert (Path(line["file"]).name, line["line"], line["text"]) == ("kernels.cuh", 34, None)
    assert (line["metric"], line["ratio"]) == ("excess wavefronts", 1)
    assert first["saving_low_ns"] < first["saving_ns"] < first["saving_high_ns"] < 532_256
    assert first["before_ns"] - first["saving_ns"] == first["predicted_ns"]
    assert {"metric", "value", "unit"} == {*first["evidence"][0]}
    assert by_name["naive_gemm"] == []
    (done,) = by_name["vec_add"]
    assert (done["rule"], done["severity"], done["saving_ns"]) == ("at-its-roof", "info", 0)


def test_sections_in_json(run: Run, report: str, repository: Path) -> None:
    schema = json.loads((repository / "docs" / "kernels.schema.json").read_text(encoding="utf-8"))
    plain = json.loads(run("kernels", report, "--json").out)
    assert violations(plain, schema) == []
    assert "sections" not in plain["kernels"][0]
    for what in ("body", "all"):
        outcome = run("kernels", report, "--json", "--print-details", what)
        assert (outcome.status, outcome.err) == (0, "")
        full = json.loads(outcome.out)
        assert violations(full, schema) == []
        described = schema["properties"]["kernels"]["items"]["properties"]["sections"]
        for kernel, other in zip(full["kernels"], plain["kernels"], strict=True):
            assert [*kernel.pop("sections")] == [*described["properties"]]
            assert kernel == other
    code = json.loads(run("kernels", report, "--json", "--page", "source").out)
    assert violations(code, schema) == []
    assert code["code"]
    of_one = json.loads(
        run("kernels", report, "--json", "--print-details", "all", "-k", "naive_gemm").out
    )
    (kernel,) = of_one["kernels"]
    assert kernel["sections"]["launch"][0]["value"] == 1024


def test_there_are_no_bodies_without_counters(run: Run, tmp_path: Path) -> None:
    printed = tmp_path / "details.csv"
    printed.write_text(ncu_captures.printed("target", "details.csv"), encoding="utf-8")
    outcome = run("kernels", str(printed), "--page", "details", "--print-details", "body")
    assert outcome.status == 0
    assert "warning: no section has charts or tables: their counters were not" in outcome.err
    assert "charts" not in run("kernels", str(printed), "--print-details", "body", "-q").err


def test_bodies_of_sections(run: Run, report: str) -> None:
    page = ("kernels", report, "-k", "naive_gemm", "--page", "details")
    header = run(*page).out
    assert run(*page, "--print-details", "header").out == header
    everything, body = (run(*page, "--print-details", what).out for what in ("all", "body"))
    lines = iter(everything.splitlines())
    assert all(line in lines for line in header.splitlines()), "the header, and more"
    assert len(body) < len(everything)
    for printed in (everything, body):
        assert "\n    Section: Warp State Statistics\n" in printed
        assert re.search(r"\n    LG Throttle +10\.12 36\.7% \S{15}\n", printed)
        assert re.search(r"\n    Global -> L1 +- 67,141,632 5\.00 GiB +- +76\.0%\n", printed)
        assert "    Bound: memory-bound at L1\n" in printed
    assert "Executed Ipc Active" in everything
    assert "Executed Ipc Active" not in body
    as_csv = (*page, "--csv", "--print-details")
    assert run(*as_csv, "all").out == run(*as_csv, "header").out


def test_the_raw_page_as_csv(run: Run, report: str) -> None:
    outcome = run("kernels", "--import", report, "--page", "raw", "--csv")
    assert outcome == (0, ncu_captures.printed("target", "raw.csv"), "")


def test_base_units(run: Run, report: str) -> None:
    words = ("kernels", report, "--page", "raw", "--csv", "--print-units", "base")
    header, units, first, *_ = rows(run(*words).out)
    places = {name: place for place, name in enumerate(header)}

    def cell(name: str) -> tuple[str, str]:
        return units[places[name]], first[places[name]]

    assert cell("gpu__time_duration.sum") == ("ns", "110208.000000")
    assert cell("launch__shared_mem_config_size") == ("byte", "32768")
    assert cell("dram__cycles_elapsed.avg.per_second")[0] == "hz"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("-k", "vec_add"), "0"),
        (("-k", "vec"), ""),
        (("-k", "regex:^(vec|copy)"), "02"),
        (("-k", "regex:float4", "--kernel-name-base", "demangled"), "2"),
        (("--kernel-id", "::copy_stream:1"), "2"),
        (("--kernel-id", "::regex:.:1"), "01234"),
        (("--kernel-id", "1:13:vec_add:2"), ""),
        (("--kernel-id", "::vec_add:", "--kernel-id", "2:::"), "0"),
        (("-s", "1", "-c", "2"), "12"),
        (("--launch-skip-before-match", "2", "-k", "regex:_"), "234"),
        (("-c", "0"), ""),
    ],
)
def test_filters(words: tuple[str, ...], ids: str, run: Run, report: str) -> None:
    page = ("--page", "raw", "--csv", "--metrics", "launch__grid_size", "-q")
    found = rows(run("kernels", report, *words, *page).out)
    assert "".join(row[0] for row in found[2:]) == ids


def test_filters_that_exclude_everything_are_said(run: Run, report: str) -> None:
    outcome = run("kernels", report, "-k", "nothing")
    assert outcome.out == ""
    assert "exclude all launches" in outcome.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("-k", "regex:("), "invalid expression"),
        (("--kernel-id", "vec_add"), "CONTEXT:STREAM:NAME:INVOCATION"),
        (("-s", "-1"), "must be >= 0"),
        (("--page", "nonsense"), "details"),
    ],
)
def test_a_wrong_filter_is_explained(
    words: tuple[str, ...], hint: str, run: Run, report: str
) -> None:
    outcome = run("kernels", report, *words)
    assert outcome.status == 2
    assert hint in outcome.err


def test_sections_and_metrics_are_chosen(run: Run, report: str) -> None:
    out = run("kernels", report, "--section", "regex:^Occ", "-c", "1", "--csv").out
    assert {row[11] for row in rows(out)[1:]} == {"Occupancy"}
    out = run("kernels", report, "--page", "raw", "--metrics", "regex:^gpu__time,l,m").out
    assert "gpu__time_duration.sum" in out
    assert "launch__grid_size" not in out


def test_names_are_printed_as_asked(run: Run, report: str) -> None:
    words = ("kernels", report, "--csv", "-c", "1", "--section", "Occupancy")
    assert rows(run(*words, "--print-kernel-base", "function").out)[1][4] == "vec_add"
    assert rows(run(*words, "--print-kernel-base", "mangled").out)[1][4] == "_Z7vec_addPKfS0_Pfm"


def test_metrics_are_named_as_asked(run: Run, report: str) -> None:
    words = ("kernels", report, "--csv", "-c", "1", "--section", "SpeedOfLight")
    names = [row[12] for row in rows(run(*words, "--print-metric-name", "name").out)[1:] if row[12]]
    assert names[0] == "dram__cycles_elapsed.avg.per_second"
    assert names == sorted(names)


def test_summaries(run: Run, report: str) -> None:
    words = ("kernels", report, "--page", "raw", "--metrics", "gpu__time_duration.sum", "--csv")
    header, *found = rows(run(*words, "--print-summary", "per-gpu").out)
    assert dict(zip(header, found[0], strict=True)) == {
        "Process ID": "1605",
        "Process Name": "target",
        "Host Name": "127.0.0.1",
        "Kernel Name": "",
        "Block Size": "",
        "Grid Size": "",
        "Device": "0",
        "CC": "9.0",
        "Invocations": "5",
        "Section Name": "",
        "Metric Name": "gpu__time_duration.sum",
        "Metric Unit": "us",
        "Minimum": "65.44",
        "Maximum": "532.26",
        "Average": "224.51",
    }
    assert len(rows(run(*words, "--print-summary", "per-kernel").out)) == 6
    text = run("kernels", report, "--print-summary", "per-kernel", "--section", "Occupancy").out
    assert "vec_add(const float *, const float *, float *, unsigned long)" in text
    assert "Invocations 1" in text


@pytest.fixture
def timeline(tmp_path: Path) -> str:
    """A recording of steps with two of the report's launches, one of them in another shape."""
    program = Program()
    for number in range(6):
        begin, work = number * 30_000, number * 1_000_000
        program.launch(
            *(begin, begin + 5_000, (work + 10_000, work + 710_000)),
            "smem_conflict(float*, int)",
            grid=(1024,),
            block=(256,),
        )
        program.launch(
            *(begin + 8_000, begin + 13_000, (work + 710_000, work + 1_010_000)),
            "vec_add(float const*, float const*, float*, unsigned long)",
            grid=(1024,),
            block=(256,),
        )
        program.step(number, begin, begin + 30_000)
    path = tmp_path / "run.warpline"
    recording.write_recording(program.trace(), path)
    return str(path)


def test_what_findings_save_of_a_step(run: Run, report: str, timeline: str, tmp_path: Path) -> None:
    found = run("kernels", report, "--timeline", timeline, "-k", "regex:smem|vec_add")
    assert found.status == 0
    first, second = found.out.split("\n\n")[-2:]
    assert first.strip().startswith(
        "smem_conflict (1024, 1, 1) x (256, 1, 1): 532 us\n"
        "  In a step: 1 launch, 700 us of the 1.00 ms (70.0%).\n"
    )
    assert "  Step: 20.3x faster, this kernel saves 666 us of the 1.00 ms step (between " in first
    assert "  Not in the timeline: no launch has this name, grid and block.\n" in second
    both = run("kernels", report, timeline, "-k", "regex:smem|vec_add")
    assert both.out == found.out, "the timeline is recognized by its content"
    (kernel,) = json.loads(
        run("kernels", report, "--timeline", timeline, "-k", "smem_conflict", "--json").out
    )["kernels"]
    (finding,) = kernel["findings"]
    assert finding["step_ns"] == 1_000_000
    assert finding["step_saving_ns"] == pytest.approx(700_000 * 506_048 / 532_256, rel=1e-3)
    part = tmp_path / "part.warpline"
    launch = {"gpu__time_duration.sum": 1e5}
    recording.write_recording(trace([launch], columns={"name": ["kernel"]}), part)
    found = run("kernels", str(part), "--timeline", timeline)
    assert found.err.startswith("warning: --timeline has no effect: the counters lack")
    assert run("kernels", report, "--timeline", report).err.startswith(
        "error: the timeline has no kernels"
    )


def bench_file(path: Path, benchmark: str, rows: list[dict[str, Any]], gpu: str = GPU) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"schema_version": 1, "benchmark": benchmark, "gpu": {"name": gpu, "uuid": "GPU-1"}}
    path.write_text(json.dumps({**facts, "rows": rows}))
    return path


def copies(bytes_per_s: float) -> list[dict[str, Any]]:
    return [{"kind": "d2d", "bytes_per_s": bytes_per_s, "limit": "DRAM"}]


def test_measured_ceilings(
    run: Run, report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    nominal = run("kernels", report, "--json").out
    saved = saved_file({"XDG_DATA_HOME": str(tmp_path)}, GPU, "copy")
    assert saved == tmp_path / "warpline/ceilings/nvidia-h200.copy.json"
    bench_file(saved, "copy", copies(1.9e12))
    found = run("kernels", report, "--json")
    assert found.err == f"note: measured ceilings of {GPU} from {saved}\n"
    assert json.loads(found.out)["ceilings"] == [str(saved)]
    assert json.loads(found.out)["kernels"] != json.loads(nominal)["kernels"]
    assert run("kernels", report, "--print-details", "all").err == found.err, "once"
    assert run("kernels", report, "--page", "details").err == "", "what ncu prints has none"
    assert run("kernels", report, "--json", "--ceilings", "nominal") == (0, nominal, "")
    assert run("kernels", report, "--json", "-q").err == ""
    body = ("kernels", report, "-k", "vec_add", "--json", "--print-details", "body")
    (kernel,) = json.loads(run(*body).out)["kernels"]
    ceilings = kernel["sections"]["roofline"]["ceilings"]
    assert [of["bytes_per_s"] for of in ceilings if of["source"] == "measured"] == [3.8e12]
    other = bench_file(tmp_path / "a100.json", "copy", copies(1.9e12), "NVIDIA A100-SXM4-80GB")
    found = run("kernels", report, "--json", "--ceilings", str(other))
    assert (found.out, found.err) == (nominal, f"warning: --ceilings: no results of {GPU}\n")
    saved.write_text("{")
    found = run("kernels", report, "--json")
    assert found.out == nominal
    assert found.err == f"warning: measured ceilings are left out: {saved}: not JSON\n"
    refused = run("kernels", report, "--ceilings", str(saved))
    assert (refused.status, refused.out) == (1, "")
    refused = run("kernels", report, "--timeline", "absent.warpline")
    assert (refused.status, refused.out) == (1, "")


def test_json(run: Run, report: str) -> None:
    found = json.loads(run("kernels", report, "--json").out)
    assert found["schema_version"] == 1
    assert found["device"] == 0
    first = found["kernels"][0]
    assert first["grid"] == [2048, 1, 1]
    assert first["metrics"]["gpu__time_duration.sum"] == 110208.0
    assert first["metrics"]["launch__registers_per_thread"] == 16
    assert first["metrics"]["derived_tempMetric4"] is None  # nan
    assert first["passes"] > 1
    assert first["invocation"] == 1


def test_the_source_page_has_an_instruction_per_line(run: Run, report: str) -> None:
    out = run("kernels", report, "--page", "source", "--csv", "-k", "vec_add").out
    title, header, *lines = rows(out)
    assert title[0] == "Kernel Name"
    place = header.index("inst_executed")
    assert all(line[place].isdecimal() for line in lines[:24])  # the sample has no more
    assert {Path(line[3]).name for line in lines if line} == {"kernels.cuh"}
    listing = run("kernels", report, "--page", "source", "-c", "1", "--print-source", "sass").out
    assert re.search(r"^ +0x1f0 +10\.6% +wait 77\.3% +kernels.cuh:10  \w", listing, re.MULTILINE)


def test_the_session_page(run: Run, report: str) -> None:
    out = run("kernels", report, "--page", "session").out
    assert "Nsight Compute 2025.3.1.0" in out
    assert "Device 0: NVIDIA H200" in out
    facts = rows(run("kernels", report, "--page", "session", "--csv").out)
    assert ["Device 0: NVIDIA H200", "warp_size", "32"] in facts


def test_a_timeline_has_no_profiled_kernels(run: Run, bad: str) -> None:
    outcome = run("kernels", bad)
    assert outcome.status == 1
    assert "no profiled kernels" in outcome.err


def test_the_summary_and_the_tables(run: Run, report: str) -> None:
    summary = run(report).out
    assert "Profiled kernels" in summary
    assert "never recorded" not in summary
    assert f"next: warpline kernels {report}" in summary
    table = run("stats", "-r", "kernel_metrics", "-f", "csv", report).out
    assert "gpu__time_duration.sum,ns,110208.0" in table
    rules = run("stats", "-r", "kernel_rules", "-f", "csv", report).out
    assert "HighPipeUtilization,optimization,81.45,local,Low Utilization" in rules
    query = "SELECT max(value) AS longest FROM kernel_metric WHERE name = 'gpu__time_duration.sum'"
    assert "532256.0" in run("query", report, query).out


def test_analyze_refers_to_the_command(run: Run, report: str) -> None:
    outcome = run("analyze", report)
    assert outcome.status == 1
    assert "no timeline" in outcome.err
    assert "warpline kernels" in outcome.err


def test_values_of_instances(run: Run, report: str) -> None:
    name = "sass__inst_executed_per_opcode"
    words = ("kernels", report, "-c", "1", "--page", "raw", "--csv", "--metrics", name)
    total, values, details = (
        rows(run(*words, "--print-metric-instances", mode).out)[2][-1]
        for mode in ("none", "values", "details")
    )
    assert values.startswith(f"{total} (7,340,032; 2,179,072; ")
    numbers = [int(text.replace(",", "")) for text in values[len(total) + 2 : -1].split("; ")]
    assert sum(numbers) == int(total.replace(",", ""))
    assert re.sub(r"[A-Z0-9_.]+: ", "", details) == values
