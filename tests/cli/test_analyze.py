"""``warpline analyze`` on real recordings: exit status, formats, options, and what must hold."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path

import pytest
from support import captures
from support.json_schema import violations

import warpline
from warpline.derived.time_parts import IDLE
from warpline.render import Options
from warpline.render.diagnosis import text as as_text
from warpline.render.escaping import display_width
from warpline.result.savings import saving_text

ONE_GPU = ("host_sync.bad", "tiny_kernels.fixed", "pageable_h2d.fixed", "cuda_graph_level")


@pytest.fixture(scope="module")
def schema(repository: Path):
    return json.loads((repository / "docs" / "analyze.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def diagnosed(capture):
    """The diagnosis of a recording by its name, computed once."""
    known = {}

    def diagnosed(*names):
        if names not in known:
            known[names] = warpline.analyze(warpline.open(*map(capture, names)))
        return known[names]

    return diagnosed


@pytest.fixture(scope="module")
def analysed(diagnosed):
    """The JSON of a recording by its name."""
    return lambda *names: json.loads(json.dumps(diagnosed(*names).to_dict()))


@pytest.mark.parametrize("name", captures.cases())
def test_json_keeps_its_contract(name, analysed, schema):
    assert violations(analysed(name), schema) == []


@pytest.mark.parametrize("name", captures.cases())
def test_parts_sum_to_the_total_and_phases_to_both(name, analysed):
    found = analysed(name)
    assert found["breakdown"]
    for item in found["breakdown"]:
        assert sum(part["ns"] for part in item["parts"]) == item["total_ns"]
        busy_ns = sum(part["ns"] for part in item["parts"] if part["kind"] == "busy")
        assert sum(item["origins"].values()) == busy_ns
    outermost = [phase for phase in found["phases"] if len(phase["path"]) <= 1]
    totals = sum(item["total_ns"] for item in found["breakdown"])
    assert sum(phase["total_ns"] for phase in outermost) == totals
    for phase in found["phases"]:
        assert sum(part["ns"] for part in phase["parts"]) == phase["total_ns"]
        assert 0 <= phase["self_ns"] <= phase["total_ns"]


def parts_of(found, kind):
    parts = [part for part in found["breakdown"][0]["parts"] if part["kind"] == kind]
    return {part["category"]: part["share"] for part in parts}


def test_what_the_programs_are_known_for(analysed):
    idle = parts_of(analysed("host_sync.bad"), "idle")
    assert list(idle)[:2] == ["launch-bound", "host-sync"]
    assert sum(parts_of(analysed("pageable_h2d.fixed"), "busy").values()) > 0.95
    assert parts_of(analysed("cuda_graph_level"), "busy")["graph"] > 0.95
    assert parts_of(analysed("ddp_serial.bad.rank0"), "busy")["collective"] > 0.3
    states = {item["id"]: item["state"] for item in analysed("host_sync.bad")["checklist"]}
    assert states["gpu-busy"] == states["no-unnecessary-synchronization"] == "fail"
    assert states["copies-overlapped"] == "pass"


def test_the_backward_pass_is_in_its_phase_although_another_thread_launches_it(analysed):
    phases = {"/".join(item["path"]): item for item in analysed("host_sync.bad")["phases"]}
    step = phases["step_*"]
    inside = ("forward", "backward", "optimizer")
    assert sum(phases[f"step_*/{name}"]["total_ns"] for name in inside) == step["total_ns"]
    assert phases["step_*/backward"]["total_ns"] > 0.3 * step["total_ns"]
    assert step["calls"] == analysed("host_sync.bad")["steps"]["count"]


def test_ranks_make_one_run(analysed):
    found = analysed("ddp_serial.bad.rank0", "ddp_serial.bad.rank1")
    assert len({item["process"] for item in found["breakdown"]}) == 2
    assert len(found["trace"]["paths"]) == 2
    assert found["verdict"].startswith("The slowest of 2 GPUs")


@pytest.mark.parametrize("name", captures.cases())
def test_the_verdict_has_the_saving_and_the_precision_of_its_finding(name, diagnosed):
    diagnosis = diagnosed(name)
    out = io.StringIO()
    as_text.render(diagnosis, out, Options())
    screen = " ".join(out.getvalue().split())
    found = re.search(r"\((F\d+)\)\. Estimated saving: ([^(]*\(\d+%)\)\.", diagnosis.verdict)
    first = next((x for x in diagnosis.findings if x.severity in {"high", "medium"}), None)
    assert (found is None) == (first is None or not first.saving_ns)
    for finding in diagnosis.findings:
        saving = saving_text(finding, " per step")
        assert not re.search(r"\d\.\d+%", saving)  # shares of savings have no decimals
        if found is not None and finding.id == found[1]:
            assert saving.startswith(f"{found[2]}; bounds ")
            assert f"Estimated saving: {found[2]}; bounds " in screen
    times = re.split(" Estimated saving| may save", diagnosis.verdict)[0]
    assert not re.search(r"(?<![\d.])\d+%", times)  # shares of time have one


@pytest.mark.parametrize(
    ("columns", "name"), [*itertools.product(["80", "120"], ONE_GPU), ("60", "host_sync.bad")]
)
def test_the_screen_fits(run, capture, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    path = str(capture(name))
    done = run("analyze", path)
    assert done.status == 0
    lines = done.out.splitlines()
    assert "\x1b" not in done.out
    # A command is to be copied, and so never cut.
    free = [line for line in lines if path not in line and "ncu --set full" not in line]
    assert max(map(display_width, free)) <= int(columns)
    for heading in ("GPU 0", "Checklist", "Next: warpline"):
        assert any(line.startswith(heading) for line in lines)


def test_a_pipe_without_unicode_gets_plain_characters(start, capture):
    done = start("analyze", str(capture("host_sync.bad")), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    text = done.stdout.decode("ascii")
    bar = next(line for line in text.splitlines() if line.startswith("  ##"))
    assert set(bar.strip()) == {"#", "-", "."}


def test_fail_on(run, capture):
    path = str(capture("pageable_h2d.fixed"))  # a healthy run, of few steps
    assert run("analyze", "-q", "--fail-on", "high", path).status == 0
    assert run("analyze", "-q", "--fail-on", "info", path).status == 3
    done = run("analyze", "--fail-on", "grave", path)
    assert (done.status, done.out) == (2, "")
    assert "hint: use high, medium, low, info" in done.err


def test_csv_is_the_breakdown(run, capture):
    done = run("analyze", "-q", "--format", "csv", str(capture("host_sync.bad")))
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert {row["Kind"] for row in rows} == {"busy", "idle"}
    shares = sum(float(row["Time (%)"]) for row in rows)
    assert abs(shares - 100) < 0.1 * len(rows)


def test_each_recording_by_itself(run, capture):
    paths = [str(capture(name)) for name in ("host_sync.bad", "tiny_kernels.fixed")]
    found = json.loads(run("analyze", "--each", "-f", "json", *paths).out)
    assert [item["trace"]["paths"] for item in found] == [[path] for path in paths]
    together = json.loads(run("analyze", "-f", "json", *paths).out)
    assert together["trace"]["paths"] == paths
    table = run("analyze", "-q", "--each", "-f", "csv", *paths).out
    recordings = {line.split(",")[0] for line in table.splitlines() if line}
    assert recordings == {"Recording", "host_sync.bad.sqlite", "tiny_kernels.fixed.sqlite"}


def test_checklist(run, capture):
    path = str(capture("host_sync.bad"))
    done = run("analyze", "-q", "--checklist", path)
    assert done.status == 0
    assert "fail     GPU busy" in done.out
    assert "an idle GPU gains more from a faster CPU side" in done.out
    assert "Phases" not in done.out
    rows = list(csv.DictReader(io.StringIO(run("analyze", "-q", "--checklist", "-fcsv", path).out)))
    assert {row["State"] for row in rows} <= {"pass", "fail", "unknown"}
    written = run("analyze", "-q", "--checklist", "-f", "md", path).out
    assert "| fail | GPU busy | " in written
    assert "| gemm |" not in written


def test_steps_by_name(run, capture):
    path = str(capture("host_sync.bad"))
    found = json.loads(run("analyze", "-f", "json", "--steps-from", "forward", path).out)
    assert found["steps"]["source"] == "range:forward"
    assert not found["steps"]["is_inferred"]
    # The option's former name.
    named = run("analyze", "-q", "-f", "csv", "--steps", "forward", path).out
    total_ns = sum(int(row["Total Time (ns)"]) for row in csv.DictReader(io.StringIO(named)))
    assert total_ns == found["breakdown"][0]["total_ns"]
    done = run("analyze", "--steps-from", "nothing", path)
    assert done.status == 2
    assert "nothing" in done.err


def test_filters_are_told_and_applied(run, capture):
    path = str(capture("host_sync.bad"))
    done = run("analyze", "-f", "json", "--exclude", "step_1", path)
    found = json.loads(done.out)
    assert found["title"] == "host_sync.bad.sqlite --exclude step_1"
    whole = json.loads(run("analyze", "-f", "json", path).out)
    assert found["steps"]["count"] < whole["steps"]["count"]


def test_markdown_shows_names_as_text(run, capture):
    done = run("analyze", "-q", "-f", "markdown", str(capture("host_sync.bad")))
    assert done.out.startswith("## host\\_sync.bad.sqlite")
    assert "| launch-bound | idle |" in done.out
    assert "| `step_*/forward/layer_0` | " in done.out


def test_a_recording_without_gpu_work_is_told(run, tmp_path):
    from warpline.trace import MemorySource, Trace, TraceMeta

    tables = {
        "range": {"start_ns": [0], "end_ns": [9], "process_id": [0], "thread_id": [0]},
        "process": {"pid": [7]},
        "thread": {"process_id": [0], "tid": [7]},
    }
    source = MemorySource(tables, TraceMeta((Path("some.file"),), "memory"))
    path = warpline.export(Trace(source), tmp_path / "cpu.warpline")
    done = run("analyze", "-q", str(path))
    assert done.status == 0
    assert "No GPU work was recorded" in done.out
    found = json.loads(run("analyze", "-f", "json", str(path)).out)
    assert found["breakdown"] == []
    assert [item["rule"] for item in found["findings"]][:1] == ["capture-quality"]
    assert run("analyze", "-q", "--fail-on", "medium", str(path)).status == 3
    checklist = run("analyze", "-q", "--checklist", str(path)).out
    assert "The checklist needs GPU work" in checklist
    assert checklist.endswith(f"Findings: warpline analyze {path}\n")
    assert "The checklist needs" in run("analyze", "-q", "--checklist", "-f", "md", str(path)).out


def test_the_page_names_every_cause_and_key(repository, schema, analysed):
    page = (repository / "docs" / "analyze.md").read_text(encoding="utf-8")
    causes = page.split("Idle causes:")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", causes, re.MULTILINE) == [cause.label for cause in IDLE]
    found = analysed("host_sync.bad")
    assert {*schema["properties"]} == {*found}
    keys = re.findall(r"^\| `(\w+)` \|", page.split("## In CI")[1], re.MULTILINE)
    assert {*keys} <= {*found}


def test_in_python(capture):
    found = warpline.analyze(warpline.open(capture("host_sync.bad")), steps="step_*")
    assert isinstance(found, warpline.Diagnosis)
    assert isinstance(found.findings[0], warpline.Finding)
    assert repr(found).startswith("<Diagnosis of host_sync.bad.sqlite: GPU busy ")
    assert found.sections[0].name == "breakdown:name=step_*"
