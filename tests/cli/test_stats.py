"""``warpline stats``: tables, formats, files, messages, and options of nsys stats."""

from __future__ import annotations

import csv
import io
import json

import pytest

from warpline import api
from warpline.result import ANALYSES
from warpline.trace import MemorySource, Trace, TraceMeta

KERNEL_IDS = {name: [0, 0] for name in ("device_id", "context_id", "stream_id", "process_id")}
KERNELS = {**KERNEL_IDS, "start_ns": [0, 20], "end_ns": [10, 50], "name": ["a", "b"]}


@pytest.fixture
def recording(monkeypatch, tmp_path):
    """Let a file name stand for a trace in memory."""

    def make(tables, **meta):
        facts = TraceMeta((tmp_path / "memory",), "memory", **meta)
        monkeypatch.setattr(api, "open", lambda *_paths: Trace(MemorySource(tables, facts)))
        return "memory.file"

    return make


def table_names(out: str) -> list[str]:
    """Return the names in the titles of tables written as text."""
    return [line[line.index("(") + 1 : -1] for line in out.splitlines() if line.endswith("_sum)")]


def test_without_a_name_the_default_tables_are_printed(run, bad):
    done = run("stats", bad)
    assert done.status == 0
    assert table_names(done.out) == api.default_tables()


@pytest.mark.parametrize(
    "words",
    [
        ("-r", "nvtx_sum,cuda_api_sum"),
        ("-r", "nvtx_sum", "-r", "cuda_api_sum"),
        ("--report", "nvtxsum", "--report=cudaapisum"),
    ],
)
def test_tables_are_named_as_nsys_users_do(run, bad, words):
    expected = run("stats", bad, "-r", "nvtx_sum,cuda_api_sum", "--format", "csv").out
    assert run("stats", *words, bad, "-f", "csv").out == expected
    assert expected.count("\n\n") == 1


def test_recordings_and_options_stand_in_any_order(run, bad, fixed):
    expected = run("stats", "-r", "cuda_api_sum", "-f", "csv", bad, fixed)
    assert run("stats", bad, "-r", "cuda_api_sum", fixed, "-f", "csv") == expected
    calls = csv.DictReader(io.StringIO(expected.out))
    assert {row["Name"]: row["Num Calls"] for row in calls}["cudaMemcpyAsync"] == "24"


def test_column_is_another_name_of_text(run, bad):
    assert run("stats", bad, "-f", "column") == run("stats", bad, "-f", "text")


def test_csv_is_what_nsys_prints(run, bad):
    # nsys stats -r cuda_gpu_mem_time_sum --format csv, version 2024.2.3
    rows = run("stats", bad, "-r", "cuda_gpu_mem_time_sum", "-f", "csv").out.splitlines()
    assert rows[0].startswith("Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),")
    assert rows[1].startswith("99.5,86546193,6,14424365.5,13770040.5,13402956,17204139,")


def test_json_holds_all_and_nothing_else_is_said(run, bad):
    done = run("stats", bad, "-r", "cuda_api_trace,cuda_gpu_kern_sum", "--format=json")
    found = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert [table["name"] for table in found["tables"]] == ["cuda_api_trace", "cuda_gpu_kern_sum"]
    assert len(found["tables"][0]["rows"]) == 344
    assert found["warnings"]


def test_rows_limits_every_format(run, bad):
    words = ("stats", bad, "-r", "cuda_api_trace", "--rows", "7")
    assert len(run(*words, "-f", "csv").out.splitlines()) == 8
    assert len(json.loads(run(*words, "-f", "json").out)["tables"][0]["rows"]) == 7
    assert "337 more rows" in run(*words).out
    assert len(run(*words[:-1], "0", "-f", "csv").out.splitlines()) == 345


def test_the_unit_of_time_is_chosen_by_the_beginning_of_its_name(run, bad):
    for word in ("ms", "msec", "milli"):
        head = run("stats", bad, "-r", "nvtx_sum", "-f", "csv", "--timeunit", word).out
        assert head.startswith("Time (%),Total Time (ms),")


def test_the_data_is_on_stdout_and_the_talk_on_stderr(run, recording):
    name = recording(
        {"kernel": KERNELS},
        lost={"kernels": 12},
        unread={"FOO": 3, "BAR": 1000},
        warnings=("odd \x1b[1m clock", "odd \x1b[1m clock"),
    )
    done = run("stats", name, "-r", "cuda_gpu_kern_sum,nvtx_sum", "-f", "csv")
    assert done.status == 0
    assert done.out.splitlines()[1].startswith("75.0,30,1,")
    assert done.err.splitlines() == [
        "warning: dropped while recording: kernels (12)",
        "warning: odd \\x1b[1m clock",
        "note: 2 tables of the file not read: BAR (1,000 rows), FOO (3 rows)",
        "note: nvtx_sum: skipped: no range events were recorded",
        "hint: add NVTX ranges to the program and profile with --trace=nvtx",
    ]
    assert run("stats", name, "-r", "cuda_gpu_kern_sum", "-f", "csv", "-q").err == ""


def test_readings_that_are_missing(run, recording):
    done = run("stats", recording({"kernel": KERNELS}), "-r", "gpu_health_sum")
    assert "note: gpu_health_sum: skipped: no readings of GPUs were recorded" in done.err
    assert "hint: profile with warpline profile, without --gpu-health=off" in done.err


def test_status_1_if_every_named_table_is_skipped(run, recording):
    name = recording({"kernel": KERNELS})
    assert run("stats", name, "-r", "nvtx_sum,osrt_sum").status == 1
    assert run("stats", name, "-r", "nvtx_sum,cuda_gpu_kern_sum").status == 0
    empty = recording({})
    done = run("stats", empty)
    assert done.status == 0, "nobody named a table"
    assert done.err.count("skipped") == len(api.default_tables())


class TestOutputFile:
    def test_the_ending_chooses_the_format(self, run, bad, tmp_path):
        for ending in ("csv", "json", "md", "txt"):
            path = tmp_path / f"table.{ending}"
            name = {"md": "markdown", "txt": "text"}.get(ending, ending)
            expected = run("stats", bad, "-r", "nvtx_sum", "-f", name).out
            assert run("stats", bad, "-r", "nvtx_sum", "-o", str(path)).out == ""
            assert path.read_text() == expected

    def test_a_dash_is_standard_output(self, run, bad):
        assert run("stats", bad, "-o", "-").out == run("stats", bad).out

    def test_an_existing_file_is_replaced_only_when_told_to(self, run, bad, tmp_path):
        path = tmp_path / "out.csv"
        path.write_text("precious")
        words = ("stats", bad, "-r", "nvtx_sum", "-o", str(path))
        done = run(*words)
        assert done.status == 2
        assert done.err.splitlines() == [
            f"error: {path} already exists",
            "hint: use --force-overwrite to replace it",
        ]
        assert run(*words, "--force-overwrite", "false").status == 2
        assert path.read_text() == "precious"
        for force in (["--force-overwrite"], ["--force-overwrite", "true"]):
            path.write_text("precious")
            assert run(*words[:2], *force, *words[2:]).status == 0
            assert path.read_text().startswith("Time (%)")
        assert [item.name for item in tmp_path.iterdir()] == ["out.csv"]

    def test_a_failure_leaves_no_file(self, run, bad, tmp_path, monkeypatch):
        path = tmp_path / "out.csv"
        monkeypatch.setattr("pathlib.Path.replace", lambda *_: 1 // 0)
        assert run("stats", bad, "-o", str(path)).status == 1
        assert list(tmp_path.iterdir()) == []

    def test_what_cannot_be_written_is_told_before_anything_is_read(self, run, tmp_path):
        missing = tmp_path / "no" / "out.csv"
        done = run("stats", "missing.sqlite", "-o", str(missing))
        assert done.status == 1
        assert f"there is no directory {missing.parent}" in done.err
        assert "is a directory" in run("stats", "missing.sqlite", "-o", str(tmp_path)).err

    def test_a_device_is_written_to(self, run, bad):
        assert run("stats", bad, "-o", "/dev/null") == (0, "", run("stats", bad).err)


def test_a_table_that_fails_costs_only_itself(run, bad, monkeypatch):
    from dataclasses import replace

    from warpline.result import ANALYSES

    def fail(trace, arguments):
        return 1 // 0

    api.default_tables()
    broken = replace(ANALYSES.get("osrt_sum"), compute=fail)
    monkeypatch.setitem(ANALYSES._items, "osrt_sum", broken)
    done = run("stats", bad, "-r", "osrt_sum,cuda_gpu_kern_sum")
    assert done.status == 1
    assert table_names(done.out) == ["cuda_gpu_kern_sum"]
    assert "error: osrt_sum: internal error: ZeroDivisionError: " in done.err
    assert "Traceback" not in done.err
    shown = run("stats", bad, "-r", "osrt_sum,cuda_gpu_kern_sum", "--debug")
    assert shown.status == 1
    assert "Traceback" in shown.err


def names_by(run, bad, *words):
    done = run("stats", bad, "-r", "cuda_api_sum", *words, "-f", "json")
    assert done.status == 0, done.err
    return json.loads(done.out)["tables"][0]["rows"]


@pytest.mark.parametrize(
    ("word", "field", "falls"),
    [
        ("instances", "instances", True),
        ("instances:asc", "instances", False),
        ("INSTANCES:desc", "instances", True),
        ("Max (ns)", "max_ns", True),
        ("name:asc", "name", False),
    ],
)
def test_tables_are_sorted_by_a_field(run, bad, word, field, falls):
    before, after = names_by(run, bad), names_by(run, bad, "--sort", word)
    expected = sorted(before, key=lambda row: row[field], reverse=falls)
    assert after == expected
    assert after != before


def test_rows_are_cut_after_they_are_sorted(run, bad):
    rows = names_by(run, bad, "--sort", "max_ns", "--rows", "1")
    assert [rows[0]["max_ns"]] == [max(row["max_ns"] for row in names_by(run, bad))]


def test_a_field_that_no_table_has_is_refused_with_those_there_are(run, bad):
    done = run("stats", bad, "-r", "cuda_api_sum", "--sort", "weight")
    assert done.status == 2
    assert "--sort: no table has a field 'weight'" in done.err
    assert "total_ns" in done.err
    assert done.out == ""


def test_tables_without_the_field_keep_their_order(run, bad):
    words = ("stats", bad, "-r", "nvtx_sum,cuda_gpu_kern_gb_sum", "-f", "json")
    plain = json.loads(run(*words).out)["tables"]
    after = json.loads(run(*words, "--sort", "grid").out)["tables"]
    assert after[0] == plain[0]


def test_what_pytorch_calls_a_column_is_understood(run, recording):
    span = {"process_id": [0, 0], "thread_id": [0, 0]}
    tables = {"op": {**span, "start_ns": [0, 20], "end_ns": [10, 50], "name": ["a", "b"]}}
    tables |= {"process": {"pid": [1]}, "thread": {"process_id": [0], "tid": [1]}}
    words = ("stats", recording(tables), "-r", "op_sum", "-f", "csv", "--sort")
    names = [line.split(",")[-1] for line in run(*words, "cpu_time_total:asc").out.splitlines()]
    assert names == ["Name", "a", "b"]
    assert run(*words, "self_cuda_time_total").status == 0


class TestOptionsOfNsys:
    @pytest.fixture
    def here(self, bad, tmp_path, monkeypatch):
        """A directory with the recording run.sqlite."""
        (tmp_path / "run.sqlite").symlink_to(bad)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def made(self, folder):
        return sorted(item.name for item in folder.iterdir() if item.name != "run.sqlite")

    def test_lists_are_matched_in_order_and_the_last_serves_for_the_rest(self, run, here):
        words = ("-r", "cuda_gpu_trace", "-r", "nvtx_sum,cuda_api_sum", "run.sqlite")
        done = run("stats", *words, "-f", "csv,column", "-o", ".,-")
        assert done.status == 0
        assert self.made(here) == ["run_cuda_gpu_trace.csv"]
        expected = run("stats", "-r", "cuda_gpu_trace", "-f", "csv", "run.sqlite").out
        assert (here / "run_cuda_gpu_trace.csv").read_text() == expected
        assert done.out == run("stats", "-r", "nvtx_sum,cuda_api_sum", "run.sqlite").out
        assert done.err.count("note: wrote run_cuda_gpu_trace.csv") == 1
        assert done.err.count("warning:") == 1

    def test_one_table_to_two_places(self, run, here):
        done = run("stats", "-r", "nvtx_sum", "-f", "csv,json", "-o", ".,-", "run.sqlite", "-q")
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out)["tables"][0]["name"] == "nvtx_sum"
        assert self.made(here) == ["run_nvtx_sum.csv"]

    def test_a_name_without_a_suffix_is_a_base(self, run, here):
        words = ("stats", "-r", "nvtx_sum,cuda_gpu_kern_sum:base", "run.sqlite", "-q", "-o")
        assert run(*words, "x").status == 0
        assert self.made(here) == ["x_cuda_gpu_kern_sum_base.csv", "x_nvtx_sum.csv"]
        done = run(*words, "x")
        assert (done.status, done.out) == (2, "")
        assert "x_nvtx_sum.csv already exists" in done.err
        assert run(*words, "x", "-f", "json", "--force-overwrite=true").status == 0
        assert "x_nvtx_sum.json" in self.made(here)

    def test_files_are_beside_the_recording_and_none_is_empty(self, run, here, monkeypatch):
        monkeypatch.chdir("/")
        done = run("stats", "-r", "nvtx_sum,sched_sum", f"{here}/run.sqlite", "-o", ".", "-q")
        assert done.status == 2, "there is no such table"
        done = run("stats", "-o", ".", "-q", f"{here}/run.sqlite", "-r", "nvtx_sum,op_sum")
        assert (done.status, done.out, done.err) == (0, "", "")
        assert self.made(here) == ["run_nvtx_sum.csv"]

    def test_one_file_for_each_table(self, run, here):
        words = ("stats", "-r", "nvtx_sum,cuda_api_sum,osrt_sum", "run.sqlite", "-q", "-o")
        assert run(*words, "a.csv,b.json").status == 0
        expected = run("stats", "-r", "nvtx_sum", "-f", "csv", "run.sqlite").out
        assert (here / "a.csv").read_text() == expected
        found = json.loads((here / "b.json").read_text())
        assert [item["name"] for item in found["tables"]] == ["cuda_api_sum", "osrt_sum"]
        done = run(*words, "c.csv", "-f", "csv,json")
        assert (done.status, done.out) == (2, "")
        assert "c.csv has two formats: csv and json" in done.err

    def test_what_cannot_be_done_is_refused(self, run, here):
        done = run("stats", "run.sqlite", "-o", "@less")
        assert (done.status, done.out) == (2, "")
        assert "hint: use a shell pipe: warpline stats ... | less" in done.err
        for words in (("stats",), ("analyze",), ("summary",), ("report",)):
            done = run(*words, "run.sqlite", "-o", "x.xyz")
            assert (done.status, done.out) == (2, "")
            assert done.err.startswith("error: x.xyz: unknown output suffix '.xyz'\nhint: use .")
        assert self.made(here) == []
        assert run("stats", "run.sqlite", "-r", "nvtx_sum", "-o", "x.xyz", "-f", "csv").status == 0
        assert (here / "x.xyz").read_text().startswith("Time (%)")

    def test_force_export_has_no_effect_and_says_why(self, run, here):
        words = ("stats", "-r", "nvtx_sum", "run.sqlite")
        note = "note: --force-export has no effect: Warpline reads recordings without an export\n"
        plain = run(*words)
        for force in (["--force-export=true"], ["--force-export", "true"]):
            assert run(*words, *force) == (0, plain.out, note + plain.err)
        assert run(*words, "--force-export=false") == plain

    def test_the_export_is_read_instead_of_the_report(self, run, here):
        (here / "run.nsys-rep").touch()
        words = ("stats", "-r", "nvtx_sum", "--sqlite", "run.sqlite")
        plain = run("stats", "-r", "nvtx_sum", "run.sqlite")
        note = "note: reading run.sqlite instead of run.nsys-rep (--sqlite)\n"
        assert run(*words) == plain
        assert run(*words, "run.nsys-rep") == (0, plain.out, note + plain.err)
        done = run(*words, "run.nsys-rep", "--force-export=true")
        assert done.err.startswith("note: --sqlite run.sqlite is not written: Warpline reads run.")
        assert "run.nsys-rep is empty" in done.err
        assert run(*words, "run.sqlite").status == 2
        assert run(*words, "a.nsys-rep", "b.nsys-rep").status == 2

    def test_help_of_tables(self, run):
        done = run("stats", "--help-reports")
        assert (done.status, done.err) == (0, "")
        for item in ANALYSES:
            assert f"  {item.name} " in done.out
        one = run("explain", "cuda_api_sum").out
        assert run("stats", "--help-reports=cuda_api_sum").out == one
        assert run("stats", "--help-reports", "cudaapisum,nvtx_sum").out.startswith(one)
        for words in (["--help-reports", "ALL"], ["--help-reports=ALL"]):
            assert one in run("stats", *words).out
        assert run("stats", "--help-reports", "nonsense").status == 2
