"""The driver of the harm test detects misbehavior, shown with misbehaving programs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from gpu.harm import judging, outcome, running
from gpu.harm import run as driver
from gpu.harm.driving import Driven
from gpu.harm.levels import LEVELS
from gpu.harm.outcome import Outcome, Row
from gpu.harm.table import PROGRAMS, Program

from warpline.capture.attaching.injecting import Attacher
from warpline.errors import AgentMissingError

RECORDED = 'if [ -n "$WARPLINE_SESSION" ]; then '


def stand_in(name: str, script: str, **more: Any) -> Program:
    words = ("sh", "-c", script)
    return Program(name, words, ("default",), runs_on_cpu=True, **more)


BEHAVED = stand_in("behaved", "echo out; echo note >&2; exit 4", status=4)
CHANGED = stand_in("changed", f"{RECORDED} echo other; else echo out; fi")
NOISY = stand_in("noisy", f"echo out; {RECORDED} echo oops >&2; fi")
KILLED = stand_in("killed", f"echo out; {RECORDED} kill -SEGV $$; fi")
VARYING = stand_in("varying", "echo $$")
FAILED = stand_in("failed", "echo no device >&2; exit 3")
LACKING = stand_in("lacking", "exit 0", modules=("no_such_module",))


def asked(out, *words: str) -> argparse.Namespace:
    return driver._arguments(["--out", str(out), "--jobs", "3", *words])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harm")
    bench = driver.Bench(driver.Machine(gpus=0), folder / "scratch", asked(folder / "out"))
    programs = (BEHAVED, CHANGED, NOISY, KILLED, VARYING, FAILED, LACKING)
    rows = bench.run(programs)
    return folder / "out", Outcome(rows, {"warpline": "1"}), {row.program.name: row for row in rows}


def test_a_program_that_does_the_same_is_ok(found):
    _, _, rows = found
    row = rows["behaved"]
    assert (row.alone(), row.cell("default"), row.fault) == ("4", "ok", None)
    assert [len(row.runs[level]) for level in ("alone", "default")] == [2, 1]


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("changed", "stdout: 'other', alone 'out'"),
        ("noisy", "stderr: oops"),
        ("killed", "status SIGSEGV, alone 0"),
    ],
)
def test_harm_is_found_and_the_outputs_are_kept(found, name, harm):
    out, _, rows = found
    assert rows[name].cell("default") == "HARM"
    assert rows[name].verdicts["default"][0].harm == (harm,)
    kept = {path.name for path in (out / "kept").iterdir() if path.name.startswith(name)}
    labels = ("alone.0", "alone.1", "default.0")
    assert kept == {f"{name}.{label}.{end}" for label in labels for end in ("stdout", "stderr")}


def test_a_program_that_varies_or_fails_alone_is_at_fault(found):
    _, _, rows = found
    assert rows["varying"].fault == "its output varies"
    assert rows["varying"].cell("default") == "ok"  # nothing can be said of its output
    assert rows["failed"].fault == "ends with 3, not 0: no device"


def test_the_outcome_counts_and_says_all(found, tmp_path):
    _, whole, _ = found
    assert whole.status() == 1
    assert whole.closing().startswith(
        "7 programs: 3 recorded runs ok, 3 harmed, 0 with a flawed recording. "
        "2 programs faulty, 1 skipped, 0 runs left out."
    )
    text = outcome.as_text(whole)
    assert "lacking: skipped: no_such_module is not installed" in text
    assert "killed at default: HARM status SIGSEGV, alone 0" in text
    facts = json.loads(outcome.as_json(whole))
    assert [len(program["runs"]) for program in facts["programs"]] == [3] * 6 + [0]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{outcome.BEGIN}\nold\n{outcome.END}\nafter\n")
    for _ in range(2):
        outcome.write_markdown(page, whole)
    assert page.read_text().startswith(f"before\n{outcome.BEGIN}\n\nRun with warpline 1.")
    assert page.read_text().endswith(f"\n\n{outcome.END}\nafter\n")
    assert page.read_text().count("| killed | 0 | HARM |") == 1


def test_a_hang_is_harm(tmp_path):
    program = stand_in("hanging", f"{RECORDED} sleep 1000; fi")
    words = list(program.words)
    alone = running.run(words, os.environ, tmp_path / "alone", 60, None)
    made = running.run(words, os.environ, tmp_path / "default", 0.5, LEVELS["default"])
    assert (alone.status, made.status) == (0, None)
    verdict = judging.judge(program, LEVELS["default"], [alone], made)
    assert verdict.harm == ("status hang, alone 0",)


def meanwhile(tmp_path, level: str, script: str) -> tuple[judging.Verdict, running.Run]:
    """Judge a program that runs until the first recording of it is written."""
    skip_unless_possible(level)
    waits = 'while [ -z "$ALONE" ] && [ ! -e part0.warpline ]; do sleep 0.05; done; '
    program = stand_in("driven", waits + script)
    words = list(program.words)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    alone = running.run(words, {**environment, "ALONE": "1"}, tmp_path / "alone", 60, None)
    made = running.run(words, environment, tmp_path / level, 60, LEVELS[level])
    return judging.judge(program, LEVELS[level], [alone], made), made


def skip_unless_possible(level: str) -> None:
    try:
        attacher = Attacher()
    except AgentMissingError as error:
        pytest.skip(error.message)
    if level == "attached":
        child = subprocess.Popen(["sleep", "60"])
        try:
            found = attacher.obstacle(child.pid)
        finally:
            child.kill()
            child.wait()
        if found is not None:
            pytest.skip(found.cause)


@pytest.mark.parametrize("level", ["launched", "attached"])
def test_recordings_are_made_while_a_program_runs(tmp_path, monkeypatch, level):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    verdict, run = meanwhile(tmp_path, level, "echo out; echo note >&2; exit 4")
    assert verdict.is_good, verdict
    assert run.status == 4
    assert any(path.name == "part0.warpline" for path in (tmp_path / level).iterdir())
    count, *refused = verdict.notes
    assert int(count.removesuffix(" recordings")) >= 1
    assert all(note.startswith("refused: ") for note in refused)  # the program had ended


@pytest.mark.parametrize(
    ("level", "script", "harm"),
    [
        ("launched", f"{RECORDED} echo other; fi", "stdout"),
        ("attached", "grep -q libwarpline_agent /proc/$$/maps && echo other", "stdout"),
        ("attached", "! grep -q libwarpline_agent /proc/$$/maps", "status 1, alone 0"),
    ],
)
def test_harm_by_what_is_done_meanwhile_is_found(tmp_path, monkeypatch, level, script, harm):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    verdict, _ = meanwhile(tmp_path, level, f"echo out; {script}")
    assert any(text.startswith(harm) for text in verdict.harm), verdict


def test_a_damaged_part_and_one_that_is_left_are_flaws(tmp_path):
    driven = Driven(tmp_path, made=2, refusals=["it is stopped", "it is stopped"])
    (tmp_path / "part0.warpline").write_bytes(b"not a recording")
    found = running.read_all(driven)
    assert found.error is not None
    assert "part0.warpline" in found.error
    assert found.warnings == ("2 recordings", "refused: it is stopped")
    (tmp_path / "part1.warpline.raw").mkdir()
    assert running.read_all(driven).error == "part1.warpline.raw is left"
    driven.failures.append("warpline attach ended with 1: error: no")
    level, program = LEVELS["attached"], stand_in("some", "")
    alone = replace(recorded(0), recording=None)
    made = replace(alone, recording=running.read_all(driven))
    verdict = judging.judge(program, level, [alone], made)
    assert verdict.flaws == ("recording: warpline attach ended with 1: error: no",)


def test_what_comes_after_the_limit_is_left_out(tmp_path):
    args = asked(tmp_path / "out", "--limit", "-1")
    bench = driver.Bench(driver.Machine(gpus=0), tmp_path / "scratch", args)
    whole = Outcome(bench.run([BEHAVED]), {})
    assert whole.status() == 2
    assert "behaved: left out (time limit): alone, alone, default" in outcome.as_text(whole)


def recorded(kernels: int, **more: Any) -> running.Run:
    recording = running.Recording(kernels, **more)
    return running.Run(0, b"kernels 30\nkernels 6\n", b"", 0.1, recording)


@pytest.mark.parametrize(
    ("level", "kernels", "lost", "flaws"),
    [
        ("default", 36, {}, ()),
        ("default", 35, {}, ("kernels 35 of 36",)),
        ("default", 35, {"kernel": 1}, ()),  # stated: a note, no flaw
        ("default", 37, {"kernel": 1}, ("kernels 37 of 36",)),
        ("graph", 4, {}, ()),
        ("sampled", 0, {}, ()),
        ("ranges", 0, {}, ()),
        ("ranges", 1, {}, ("kernels 1 of 0",)),
    ],
)
def test_kernels_are_compared_with_what_the_program_tells(level, kernels, lost, flaws):
    program = stand_in("counting", "")
    alone = replace(recorded(0), recording=None)
    verdict = judging.judge(program, LEVELS[level], [alone], recorded(kernels, lost=lost))
    assert (verdict.harm, verdict.flaws) == ((), flaws)
    assert bool(verdict.notes) == bool(lost)


def test_a_recording_that_is_empty_or_cannot_be_opened_is_a_flaw():
    program = stand_in("some", "", kernels="some")
    alone = replace(recorded(0), recording=None)
    level = LEVELS["default"]
    empty = judging.judge(program, level, [alone], recorded(0))
    assert empty.flaws == ("no kernel recorded",)
    whole_graphs = judging.judge(program, level, [alone], recorded(0, graph_launches=3))
    assert whole_graphs.is_good
    broken = judging.judge(program, level, [alone], recorded(0, error="damaged"))
    assert broken.flaws == ("recording: damaged",)


def test_every_program_has_levels_and_a_name_of_its_own():
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names) >= 30
    assert all(set(program.levels) <= set(LEVELS) for program in PROGRAMS)
    assert [one.name for one in driver.chosen(["graphs.ch*"])] == ["graphs.child"]
    with pytest.raises(SystemExit, match="no program nosuch"):
        driver.chosen(["nosuch"])


def test_rows_show_how_many_of_several_runs_differ():
    row = Row(BEHAVED)
    row.verdicts = {"default": [judging.Verdict(("x",)), judging.Verdict(), judging.Verdict()]}
    assert row.cell("default") == "HARM 1/3"
