"""``warpline graphcheck``: exit status, formats, programs and recordings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.graph_programs import CLEAN, PLANTED, Coded
from support.json_schema import violations

from warpline import api

YES, NO, UNDECIDED, USAGE = 0, 3, 4, 2
ROOT = Path(__file__).parents[2]


@pytest.fixture
def item(tmp_path):
    """A recording of a program that reads a value in each step."""
    return written(PLANTED["item"][0], tmp_path)


def written(step, folder):
    path = folder / "run.warpline"
    api.export(Coded().run(step).recorded(), path)
    return str(path)


def test_a_recording_with_an_offender(run, item):
    done = run("graphcheck", item)
    assert done.status == NO
    lines = done.out.splitlines()
    assert lines[1].strip().startswith("No: the step cannot be captured as it is. 1 offender: CPU")
    assert "CPU read of a GPU value         1  11/11  train.py:41 step -> item" in lines
    assert "How to capture" in lines


def test_a_recording_without_one(run, tmp_path):
    done = run("graphcheck", written(CLEAN["static inputs"], tmp_path))
    assert done.status == YES
    assert "Yes: nothing in this recording prevents the capture of the step." in done.out
    assert "Offender" not in done.out
    assert "Before capture" in done.out


def test_json_is_as_its_schema_says(run, item):
    schema = json.loads((ROOT / "docs" / "graphcheck.schema.json").read_text(encoding="utf-8"))
    for name in (item, str(ROOT / "src/warpline/data/pageable_h2d.bad.sqlite")):
        found = json.loads(run("graphcheck", "--format", "json", name).out)
        assert violations(found, schema) == []
        assert (found["verdict"], found["status"]) == ("no", NO)
        saving = found["saving"]
        assert saving["captured_ns"]["central"] <= saving["step_ns"]["central"]


def test_markdown(run, item):
    done = run("graphcheck", item, "--format", "markdown")
    assert "| CPU read of a GPU value | 1 | 11/11 | `train.py:41 step -> item` |" in done.out


def test_steps_can_be_named(run, item):
    done = run("graphcheck", item, "--steps-from", "nothing_*")
    assert done.status == USAGE


def test_a_program_without_cuda_cannot_be_judged(start, tmp_path):
    done = start(
        "graphcheck", "--", sys.executable, "-c", "print(12)", shell=f"cd {tmp_path} && {{}}"
    )
    assert done.returncode == UNDECIDED
    assert done.stdout.startswith(b"12\n")
    assert b"nothing was recorded" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_status_of_a_program_that_fails_is_its_own(start):
    done = start("graphcheck", "-q", "--", sys.executable, "-c", "exit(7)")
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "missing PROGRAM or RECORDING argument"),
        (("--format", "yaml", "--", "true"), "expected one of text, markdown, json"),
        (("--stats", "--", "true"), "unknown flag '--stats'"),
    ],
)
def test_usage(run, words, message):
    done = run("graphcheck", *words)
    assert done.status == USAGE
    assert message in done.err
