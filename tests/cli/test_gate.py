"""``warpline gate``, ``baseline`` and ``trend``: exit status, files, commands run in turn."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.json_schema import violations

import warpline
from warpline.cli import turns

PASSED, REGRESSED, UNDECIDED, USAGE = 0, 3, 4, 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_repair_passes_and_its_loss_fails(run, bad, fixed):
    assert run("gate", bad, fixed).status == PASSED
    lost = run("gate", fixed, bad)
    assert lost.status == REGRESSED
    assert "Regression: step +5" in lost.out
    assert "limit 2%" in lost.out


def test_metrics(run, bad, fixed):
    words = "step:3%,busy:copy-h2d:1ms,idle:host-sync:1ms,kernel:*reduce*:500%,finding:high"
    done = run("gate", fixed, bad, "--fail-on", words, "-f", "json")
    assert done.status == REGRESSED
    outcomes = {item["metric"]: item["outcome"] for item in json.loads(done.out)["metrics"]}
    assert outcomes == {
        "step": "regression",
        "busy:copy-h2d": "regression",
        "idle:host-sync": "pass",
        "kernel:*reduce*": "pass",
        "finding": "regression",
    }


def test_what_cannot_be_decided_has_a_status_of_its_own(run, bad, folder):
    copy = shutil.copy(bad, folder / "copy.sqlite")
    done = run("gate", bad, str(copy))
    assert done.status == UNDECIDED
    assert "runs of each side would decide" in done.out


@pytest.mark.parametrize("name", ["gate.json", "gate.md", "gate.xml", "gate.txt"])
def test_files_have_the_result_in_the_format_of_their_suffix(run, bad, fixed, folder, name):
    assert run("gate", fixed, bad, "-o", name, "-q").status == REGRESSED
    text = (folder / name).read_text(encoding="utf-8")
    assert "limit 2%" in text
    assert run("gate", fixed, bad, "-o", name).status == USAGE  # it exists


def test_json_fits_its_schema(run, bad, fixed, repository):
    schema = json.loads((repository / "docs" / "gate.schema.json").read_text(encoding="utf-8"))
    for sides in ((bad, fixed), (fixed, bad)):
        words = "step:3%,memory-peak:5%,finding:high,kernel:none*:5%"
        done = run("gate", *sides, "-f", "json", "--fail-on", words)
        assert violations(json.loads(done.out), schema) == []


def test_junit_has_a_test_for_each_metric(run, bad, fixed):
    done = run("gate", fixed, bad, "--fail-on", "step:3%,kernel:<&\x01>:1%", "-f", "junit")
    suite = ET.fromstring(done.out).find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "1",
    }


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("one.sqlite",),
        ("missing.sqlite", "missing2.sqlite"),
        ("--before", "{bad}"),
        ("--before", "{bad}", "--after", "{fixed}", "{bad}", "--paired"),
        ("--baseline", "none", "{bad}"),
        ("--baseline", "none", "{bad}", "--paired"),
        ("--before", "{bad}", "{bad}", "--after", "{fixed}"),
        ("{bad}", "{bad}"),
        ("{bad}", "{fixed}", "--fail-on", "stp:3%"),
        ("{bad}", "{fixed}", "--fail-on", "finding:no-rule"),
        ("{bad}", "{fixed}", "-f", "xml"),
        ("{bad}", "{fixed}", "-o", "gate.pdf"),
        ("{bad}", "{fixed}", "--runs", "3"),
        ("{bad}", "{fixed}", "--bare"),
        ("--", "true"),
        ("--", "true", "---"),
        ("--runs", "0", "--", "true", "---", "true"),
        ("{bad}", "--", "true", "---", "true"),
    ],
)
def test_wrong_words_are_usage_errors_with_hints(run, bad, fixed, folder, words):
    done = run("gate", *(word.format(bad=bad, fixed=fixed) for word in words))
    assert (done.status, done.out) == (USAGE, "")
    assert done.err.startswith("error: ")
    assert "hint: " in done.err


def test_help_before_commands_only(run):
    assert "COMMAND_A --- COMMAND_B" in run("gate", "--help").out
    assert "usage" in run("gate", "-h", "--", "x").out


def test_commands_run_in_turn_and_drift_cancels():
    plan = turns.Plan((("a",), ("b",)), 4, 1, True, True, Path())
    assert turns.order(plan) == [
        *((0, -1), (1, -1)),
        *((1, 0), (0, 0), (0, 1), (1, 1)),
        *((1, 2), (0, 2), (0, 3), (1, 3)),
    ]
    alone = turns.order(plan._replace(is_interleaved=False, warm_up=0, runs=2))
    assert alone == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_bare_commands_are_timed(run, folder):
    quick = [sys.executable, "-S", "-c", "pass"]
    slow = [sys.executable, "-S", "-c", "import time; time.sleep(0.2)"]
    words = ("--runs", "3", "--interleave", "--bare", "--warm-up", "0", "--fail-on", "step:10%")
    done = run("gate", *words, "-f", "json", "--", *quick, "---", *slow)
    found = json.loads(done.out)
    assert found["before"]["source"] == "command"
    assert found["is_paired"]
    assert found["metrics"][0]["after"] > 0.2e9
    assert done.status == found["status"]
    assert "run 3 of 3" in done.err


def test_bare_commands_are_not_compared_with_the_steps_of_a_baseline(run, folder, bad):
    assert run("baseline", "save", "main", bad).status == 0
    done = run("gate", "--baseline", "main", "--bare", "--", "touch", "ran")
    assert done.status == 2
    assert "times of steps" in done.err
    assert not (folder / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="records programs")
def test_commands_are_recorded(run, folder):
    program = (
        "import warpline\nfor _ in range(12):\n with warpline.annotate('step'): sum(range({}))"
    )
    sides = [[sys.executable, "-c", program.format(size)] for size in (10_000, 400_000)]
    words = ("--runs", "2", "--interleave", "--warm-up", "0", "--keep", "kept")
    done = run("gate", *words, "-f", "json", "--", *sides[0], "---", *sides[1])
    found = json.loads(done.out)
    assert found["after"]["source"] == "cpu:range:step"
    assert found["after"]["runs"] == 2
    assert found["metrics"][0]["change"] > 1
    kept = sorted(path.name for path in (folder / "kept").glob("*.warpline"))
    assert kept == ["A1.warpline", "A2.warpline", "B1.warpline", "B2.warpline"]


@pytest.mark.parametrize(("program", "status"), [("exit 7", 1), ("kill -9 $$", 1)])
def test_a_command_that_fails_is_an_error(run, folder, program, status):
    words = ("--runs", "1", "--bare", "--", "true", "---", "bash", "-c", f"echo why; {program}")
    done = run("gate", *words)
    assert done.status == status
    assert "why" in done.err
    assert "error: bash -c" in done.err


def test_commands_get_no_input_so_that_all_runs_are_alike(folder):
    words = ("gate", "--runs", "2", "--bare", "-q", "-f", "json", "--keep", "kept")
    command = ("bash", "-c", "read -r line; echo got $line")
    done = subprocess.run(
        [sys.executable, "-m", "warpline", *words, "--", *command, "---", *command],
        input=b"one\ntwo\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode in {PASSED, REGRESSED, UNDECIDED}
    logs = {path.read_text(encoding="utf-8") for path in (folder / "kept").glob("*.log")}
    assert logs == {"got\n"}


@pytest.mark.skipif(sys.platform != "linux", reason="records programs")
def test_commands_that_record_no_work_are_pointed_to_bare(run, folder):
    done = run("gate", "--runs", "1", "--warm-up", "0", "--", "true", "---", "true")
    assert done.status == USAGE
    assert "no GPU work" in done.err
    assert "--bare" in done.err


def test_a_command_that_cannot_start(run, folder):
    done = run("gate", "--bare", "--", "./no-such-program", "---", "true")
    assert done.status == warpline.TargetFailedError.NOT_FOUND
    assert "./no-such-program" in done.err


def test_baselines(run, bad, fixed, folder):
    assert run("baseline", "save", "main", bad).status == 0
    path = folder / ".warpline-baselines" / "main.json"
    assert path.stat().st_size < 4_000
    assert run("baseline", "save", "main", bad).status == USAGE
    assert run("baseline", "save", "main", bad, "--force-overwrite").status == 0
    listed = run("baseline", "list").out
    assert listed.startswith("main  2026-")
    assert "17.4 ms per step (1 run" in listed
    assert "busy:copy-h2d" in run("baseline", "show", "main").out
    assert run("gate", "--baseline", "main", fixed).status == PASSED
    assert run("baseline", "save", "other", fixed, "-q").err == ""
    assert run("gate", "--baseline", "other", bad).status == REGRESSED
    assert run("baseline", "rm", "main").status == 0
    assert run("baseline", "show", "main").status == USAGE
    assert run("baseline", "list").out.startswith("other")


def test_a_baseline_is_compared_with_a_command(run, folder):
    program = (
        "import warpline\nfor _ in range(12):\n with warpline.annotate('step'): sum(range(999))"
    )
    command, once = [sys.executable, "-c", program], ("--runs", "1", "--warm-up", "0")
    done = run("gate", *once, "--keep", "kept", "--", *command, "---", *command)
    assert done.status in {PASSED, REGRESSED, UNDECIDED}
    assert run("baseline", "save", "cpu", "kept/A1.warpline").status == 0
    done = run("gate", "--baseline", "cpu", *once, "-f", "json", "--", *command)
    assert json.loads(done.out)["before"]["title"] == "baseline cpu"


def test_what_a_baseline_keeps_is_what_was_recorded(run, bad, folder):
    run("baseline", "save", "main", bad)
    saved = json.loads((folder / ".warpline-baselines" / "main.json").read_text(encoding="utf-8"))
    diagnosis = warpline.analyze(bad)
    (breakdown,) = diagnosis.breakdown
    parts = {f"{part.kind}:{part.category}": part.ns / breakdown.count for part in breakdown.parts}
    assert {name: values[0] for name, values in saved["parts_ns"].items()} == pytest.approx(
        parts, abs=1
    )
    (steps,) = saved["step_ns"]
    assert sum(steps) == breakdown.total_ns
    assert saved["findings"] == {item.rule: item.severity for item in diagnosis.findings}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema_version": 1}', b"\xff" * 50])
def test_damaged_baselines_are_one_line(run, bad, folder, content):
    run("baseline", "save", "good", bad)
    path = folder / ".warpline-baselines" / "main.json"
    path.write_bytes(content)
    for words in (("baseline", "show", "main"), ("gate", "--baseline", "main", bad)):
        done = run(*words)
        assert (done.status, done.out) == (1, "")
        assert len(done.err.splitlines()) == 2
    listed = run("baseline", "list")
    assert listed.status == 1
    assert listed.out.startswith("good")
    followed = run("trend", ".warpline-baselines")
    assert (followed.status, followed.out[:26]) == (1, "step: 1 recording, too few")


def test_baselines_are_no_recordings(run, bad, fixed, folder):
    assert run("baseline", "save", "main", bad, "--folder", "a/b").status == 0
    for command in ("gate", "compare"):
        done = run(command, "a/b/main.json", fixed)
        assert done.status == USAGE
        assert "hint: warpline gate --folder a/b --baseline main RECORDING" in done.err
    assert run("gate", "--folder", "a/b", "--baseline", "main", fixed).status == PASSED


@pytest.mark.parametrize(
    "words", [("baseline", "save", "x"), ("compare", "--after", "{fixed}", "--before")]
)
def test_a_run_that_is_named_twice_is_refused(run, bad, fixed, folder, words):
    done = run(*(word.format(fixed=fixed) for word in words), bad, bad)
    assert done.status == USAGE
    assert "is named twice" in done.err


def test_a_kernel_that_is_missing_in_one_recording_is_decided(run, bad, fixed):
    done = run("gate", fixed, bad, "--fail-on", "kernel:nothing*:5%", "-f", "json")
    (metric,) = json.loads(done.out)["metrics"]
    assert (done.status, metric["outcome"]) == (UNDECIDED, "undecided")
    assert "no kernel matches; longest are " in metric["reason"]


@pytest.mark.parametrize("words", [(), ("keep",), ("save", "x"), ("show",), ("list", "x"), ("rm",)])
def test_wrong_actions_are_usage_errors(run, folder, words):
    done = run("baseline", *words)
    assert done.status == USAGE
    assert "hint: " in done.err


@pytest.fixture
def history(run, bad, folder) -> str:
    """Baselines of twenty days, the last eight of which are slower."""
    pytest.importorskip("ruptures")
    run("baseline", "save", "c00", bad, "-q")
    first = folder / ".warpline-baselines" / "c00.json"
    content = json.loads(first.read_text(encoding="utf-8"))
    for day in range(20):
        level = 10**8 * (1.1 if day >= 12 else 1.0) * (1 + 0.003 * (day % 3))
        content |= {"step_ns": [[level, level]], "recorded_utc": f"2026-05-{day + 1:02}T00:00:00Z"}
        (first.parent / f"c{day:02}.json").write_text(json.dumps(content), encoding="utf-8")
    return str(first.parent)


def test_a_trend_names_the_recording_after_the_change(run, history):
    done = run("trend", history)
    assert done.status == 0
    assert "10.0% more" in done.out
    assert "since c12, 2026-05-13T00:00:00Z" in done.out
    assert "`c12`" in run("trend", history, "-f", "markdown").out
    found = json.loads(run("trend", history, "-f", "json").out)
    assert [change["index"] for change in found["changes"]] == [12]
    assert [point["segment"] for point in found["points"]] == [0] * 12 + [1] * 8
    assert "no change" in run("trend", history, "--metric", "busy:gemm").out


def test_a_plot_names_the_recording_of_each_point(run, history, folder):
    assert run("trend", history, "-o", "trend.svg").status == 0
    root = ET.parse(folder / "trend.svg").getroot()
    titles = [item.text or "" for item in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(title.endswith(f"c{day:02}.json") for day in range(20) for title in titles) == 20


def test_recordings_make_a_trend_too(run, bad, fixed):
    done = run("trend", fixed, bad)
    assert done.status == 0
    lines = [line for line in done.out.splitlines() if "pageable" in line]
    assert ["bad" in line for line in lines] == [True, False]  # by the time of recording
    assert done.out.startswith("step: 2 recordings, too few to find a change (at least 6)")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("missing",),
        (".",),
        ("{bad}", "--metric", "no"),
        ("{bad}", "--tolerance", "x"),
        ("{bad}", "-f", "pdf"),
        ("{bad}", "-o", "x.pdf"),
        ("{bad}", "--metric", "finding:high"),
    ],
)
def test_wrong_words_of_trend(run, bad, folder, words):
    done = run("trend", *(word.format(bad=bad) for word in words))
    assert (done.status, done.out) == (USAGE, "")
    assert "hint: " in done.err


def test_hostile_names_stay_text(run, history, folder):
    path = Path(history) / "c05.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content |= {"title": "\x1b[31m<script>\n", "environment": {"GPU": "\x1b]0;x\x07"}}
    path.write_text(json.dumps(content), encoding="utf-8")
    for words in (("trend", history, "-f", "svg"), ("baseline", "show", "c05")):
        out = run(*words).out
        assert "\x1b" not in out
