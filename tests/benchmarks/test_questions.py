"""The public questions: known answers, their score, and that our tools' answers hold each fact."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.question_facts import fact_of

from warpline.mcp.folders import Folders
from warpline.mcp.pages import LIMIT_TOKENS, tokens
from warpline.mcp.tools import Toolbox

FOLDER = Path(__file__).parents[2] / "benchmarks" / "questions"
sys.path.insert(0, str(FOLDER))
import recordings  # noqa: E402 - beside the script, which is no package
import score  # noqa: E402
from scoring import is_right  # noqa: E402

QUESTIONS: list[dict[str, Any]] = recordings.questions()["questions"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("asked")
    recordings.unpack(made)
    return made


@pytest.fixture(scope="module")
def box(folder: Path) -> Toolbox:
    return Toolbox(Folders([str(folder)]))


def by_id(name: str) -> dict[str, Any]:
    return next(item for item in QUESTIONS if item["id"] == name)


def test_there_are_forty_questions_of_each_kind():
    assert len(QUESTIONS) >= 40
    assert len({item["id"] for item in QUESTIONS}) == len(QUESTIONS)
    answers = [item["answer"] for item in QUESTIONS]
    assert answers.count("cannot say") >= 4
    assert sum(isinstance(answer, int | float) for answer in answers) >= 20
    assert {tuple(item["recordings"]) for item in QUESTIONS} > {("pageable.sqlite",)}


def test_the_answers_are_what_sql_says(folder):
    for item in QUESTIONS:
        if "sql" not in item["found"]:
            assert item["found"]["by_hand"]
            continue
        value = recordings.by_sql(folder, item["recordings"], item["found"]["sql"])
        if item["answer"] == "cannot say":
            assert value == 0, item["id"]
        else:
            assert value == item["answer"], item["id"]


def test_our_tools_answers_hold_every_fact(box):
    """Checked by program, without a model: which call has it, and that it is right."""
    for item in QUESTIONS:
        check_fact(box, item)


def check_fact(box: Toolbox, item: Mapping[str, Any]) -> None:
    reply = box.call(item["call"]["tool"], item["call"]["arguments"])
    assert not reply.is_error, f"{item['id']}: {reply.text}"
    assert tokens(reply.text) <= LIMIT_TOKENS
    value = fact_of(json.loads(reply.text), item["fact"])
    assert is_right(item, value), f"{item['id']}: {value!r} is not {item['answer']!r}"


def test_right_answers_score_in_full_and_wrong_ones_do_not(tmp_path, capsys):
    right = {item["id"]: item["answer"] for item in QUESTIONS}
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(right))
    assert score.main([str(path)]) == 0
    assert f"{len(QUESTIONS)} of {len(QUESTIONS)} right (100.0%)" in capsys.readouterr().out
    path.write_text(json.dumps({"kernel-count": 120, "no-such": 1}))
    assert score.main([str(path)]) == 1
    out = capsys.readouterr().out
    assert f"1 of {len(QUESTIONS)} right" in out
    assert "no such question: no-such" in out
    assert "wrong  gpu-model: 'no answer'; right: NVIDIA H200" in out


def test_what_is_asked_has_no_answers(capsys):
    assert score.main(["--print"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown) == len(QUESTIONS)
    assert all(set(item) <= {"id", "recordings", "question", "unit"} for item in shown)


@pytest.mark.parametrize(
    ("name", "answer", "right"),
    [
        ("h2d-time", 86546193, True),
        ("h2d-time", "86.5 ms", True),
        ("h2d-time", "They took 0.0865 s in total.", True),
        ("h2d-time", "86.5 us", False),
        ("h2d-time", "about 90 ms", False),
        ("h2d-bytes", "128 MiB", True),
        ("h2d-bytes", "134,217,728 bytes", True),
        ("h2d-bytes", "128 MB", False),
        ("kernel-count", "120 kernels", True),
        ("kernel-count", 121, False),
        ("kernel-count", None, False),
        ("kernel-count", True, False),
        ("gpu-model", "an nvidia h200", True),
        ("gpu-model", "H100", False),
        ("problem", "Pin the host memory.", True),
        ("problem", "Use a CUDA graph.", False),
        ("power", "The recording cannot say.", True),
        ("power", "it was not recorded", True),
        ("power", 700, False),
    ],
)
def test_answers_are_judged(name, answer, right):
    assert is_right(by_id(name), answer) is right
