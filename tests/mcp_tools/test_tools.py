"""The tools of ``warpline mcp``: bounded answers, evidence, what cannot be said, no way out."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support import tool_calls

from warpline.errors import InputError
from warpline.mcp.folders import Folders
from warpline.mcp.pages import LIMIT_TOKENS, Section, page, tokens
from warpline.mcp.tools import INSTRUCTIONS, TOOLS, Reply, Toolbox

BAD, FIXED = tool_calls.RECORDINGS[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, repository: Path) -> Path:
    return tool_calls.prepare(tmp_path_factory.mktemp("served"), repository)


@pytest.fixture(scope="module")
def box(folder: Path) -> Toolbox:
    return Toolbox(Folders([str(folder)]))


def answer(box: Toolbox, tool: str, /, **arguments) -> dict[str, Any]:
    reply = box.call(tool, arguments)
    assert not reply.is_error, reply.text
    assert tokens(reply.text) <= LIMIT_TOKENS
    found: dict[str, Any] = json.loads(reply.text)
    return found


def rows_of(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    part = found[name]
    return [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]


def sql(folder: Path, text: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / BAD) as database:
        return database.execute(text).fetchall()


def all_pages(box: Toolbox, tool: str, /, **arguments) -> list[dict[str, Any]]:
    pages = [answer(box, tool, **arguments)]
    while "next" in pages[-1]:
        pages.append(answer(box, tool, **arguments, cursor=pages[-1]["next"]))
        assert len(pages) < 200
    return pages


class TestBounds:
    def test_there_are_six_tools_whose_schema_is_small(self):
        listed = [
            {"name": tool.name, "description": tool.about, "inputSchema": tool.schema}
            for tool in TOOLS
        ]
        assert len(TOOLS) <= 6
        assert tokens(json.dumps(listed)) <= 2000
        assert tokens(INSTRUCTIONS) <= 200

    def test_tokens_are_counted_by_the_stated_rule(self):
        # 5 letters 2; 1 quote each; 7 digits 3; the arrow has 3 bytes.
        assert tokens("hello") == 2
        assert tokens('"a"') == 3
        assert tokens("1234567") == 3
        assert tokens("→") == 3
        assert tokens("a " * 100) == 100
        assert tokens("") == 0

    def test_pages_together_have_each_row_once(self, box, folder):
        pages = all_pages(box, "events", recordings=[BAD], table="api_call")
        found = [row for item in pages if "events" in item for row in rows_of(item, "events")]
        assert len(pages) > 3
        assert [row["id"] for row in found] == [f"api_call:{place}" for place in range(344)]
        total = sql(folder, "select count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_RUNTIME")
        assert [(344, sum(row["duration_ns"] for row in found))] == total
        assert pages[0]["sum_duration_ns"] == total[0][1]

    def test_whatever_a_row_has_each_page_fits_and_goes_on(self):
        rows = [["x" * 100_000, "é" * 5000, list(range(5000)), {"a": "b" * 9000}]] * 3
        head = {"verdict": "v" * 50_000, "list": ["w" * 99] * 500}
        seen, cursor = 0, None
        for _ in range(3):
            text = page(head, [Section("rows", rows, ("a", "b", "c", "d"))], cursor)
            assert tokens(text) <= LIMIT_TOKENS
            found = json.loads(text)
            seen += len(found["rows"]["rows"])
            assert "shortened" in found["cut"]
            cursor = found.get("next")
            if cursor is None:
                break
        assert seen == 3

    def test_numbers_that_json_lacks_are_null(self):
        text = page({"a": float("nan"), "b": float("inf"), "c": 14424365.5, "d": 1 / 3}, [], None)
        assert json.loads(text) == {"a": None, "b": None, "c": 14424365.5, "d": 0.333333}


class TestAnswers:
    def test_findings_name_the_events_that_prove_them(self, box, folder):
        found = answer(box, "analyze", recordings=[BAD])
        first = found["findings"][0]
        assert first["rule"] == "pageable-copy"
        ids = first["evidence"][0]["events"]
        shown = answer(box, "events", recordings=[BAD], table="memcpy", where=[f"id={ids[0]}"])
        [copy] = rows_of(shown, "events")
        longest = "select max(end - start), bytes from CUPTI_ACTIVITY_KIND_MEMCPY"
        assert [(copy["duration_ns"], copy["bytes"])] == sql(folder, longest)
        assert (copy["src_memory"], copy["dst_memory"]) == ("Pageable", "Device")

    def test_a_table_is_filtered_and_sorted(self, box, folder):
        found = answer(
            box,
            "table",
            recordings=[BAD],
            name="cuda_gpu_kern_sum",
            where=["instances>6"],
            sort="max_ns:asc",
            columns=["max_ns", "instances"],
        )
        grouped = """select max(end - start) as longest, count(*) as number
            from CUPTI_ACTIVITY_KIND_KERNEL group by demangledName having number > 6
            order by longest"""
        assert [tuple(row) for row in found["rows"]["rows"]] == sql(folder, grouped)
        assert (found["rows_of_table"], found["matching"]) == (15, len(sql(folder, grouped)))

    def test_events_near_another_one_overlap_it(self, box):
        found = answer(box, "events", recordings=[BAD], table="api_call", near="memcpy:4")
        low, high = found["window_ns"]
        found_rows = rows_of(found, "events")
        assert found_rows
        for row in found_rows:
            assert row["start_ns"] < high
            assert row["start_ns"] + row["duration_ns"] > low

    def test_ids_are_those_of_the_whole_recording_in_any_part(self, box):
        whole = {
            row["id"]: row
            for item in all_pages(box, "events", recordings=[BAD], table="kernel")
            for row in rows_of(item, "events")
        }
        part = answer(box, "events", recordings=[BAD], table="kernel", time="60ms/66ms")
        rows = rows_of(part, "events")
        assert rows
        assert "kernel:0" not in {row["id"] for row in rows}
        assert [whole[row["id"]] for row in rows] == rows

    def test_what_was_not_recorded_cannot_be_said(self, box):
        found = answer(box, "table", recordings=[BAD], name="um_sum")
        assert found["answer"] == "cannot say"
        assert rows_of(found, "cannot_say")[0]["hint"].startswith("profile with")
        found = answer(box, "events", recordings=[BAD], table="gpu_health")
        assert found["answer"] == "cannot say"

    def test_too_much_for_a_call_says_what_to_do(self, box, monkeypatch):
        monkeypatch.setattr("warpline.mcp.tabling._MOST_ROWS", 10)
        monkeypatch.setattr("warpline.mcp.looking._MOST_EVENTS", 10)
        asked = {"recordings": [BAD]}
        reply = box.call("table", {**asked, "name": "cuda_gpu_trace"})
        assert "rows of cuda_gpu_trace are too many to look at (name a time" in reply.text
        reply = box.call("events", asked)
        assert reply.text.endswith("are too many to look at (name a shorter time)")
        assert not box.call("events", {**asked, "time": "60ms/62ms"}).is_error

    def test_a_comparison_says_what_it_rests_on(self, box):
        found = answer(box, "compare", before=[BAD], after=[FIXED])
        assert found["verdict"] == "faster"
        same = answer(box, "compare", before=[BAD], after=["inner.sqlite"])
        assert same["verdict"] == "cannot say"
        assert same["sentence"].startswith("Cannot decide")
        part = answer(box, "compare", before=[BAD], after=[FIXED], part="cannot_say")
        assert any("One run per side" in row["because"] for row in rows_of(part, "cannot_say"))

    def test_everything_named_is_explained(self, box):
        names = [row for item in all_pages(box, "explain") for row in rows_of(item, "names")]
        assert len(names) > 200
        for row in names:
            assert answer(box, "explain", name=row["name"])["text"]

    def test_recordings_are_listed_without_what_lies_outside(self, box):
        rows = rows_of(answer(box, "recordings"), "recordings")
        assert {row["recording"]: row["format"] for row in rows} == {
            BAD: "nsys-sqlite",
            FIXED: "nsys-sqlite",
            "inner.sqlite": "nsys-sqlite",
            "sub/kineto.json": "kineto",
            "sub/target.ncu-rep": "ncu-rep",
            "sub/run.nsys-rep": "nsys-rep",
            "sub/damaged.sqlite": "nsys-sqlite",
        }


class TestFolders:
    @pytest.mark.parametrize(
        "word",
        [
            "../outside/secret.sqlite",
            "link",
            "sub/out/secret.sqlite",
            "sub/../../outside/secret.sqlite",
            "/etc/passwd",
            "no/such/file",
            "a\0b",
            "",
        ],
    )
    def test_nothing_outside_is_opened_or_told_about(self, box, word):
        reply = box.call("analyze", {"recordings": [word]})
        assert reply.is_error
        if word:
            assert "is not in the folders that this server may read" in reply.text
        assert len(reply.text.splitlines()) == 1

    def test_absolute_paths_inside_are_allowed(self, box, folder):
        assert answer(box, "table", recordings=[str(folder / BAD)])

    def test_a_directory_with_a_link_to_the_outside_is_refused(self, folder, tmp_path):
        inside = tmp_path / "inside"
        (inside / "ranks").mkdir(parents=True)
        shutil.copy(folder / "sub" / "kineto.json", tmp_path / "rank0.pt.trace.json")
        (inside / "ranks" / "rank0.pt.trace.json").symlink_to(tmp_path / "rank0.pt.trace.json")
        served = Toolbox(Folders([str(inside)]))
        assert "not in the folders" in served.call("analyze", {"recordings": ["ranks"]}).text
        (inside / "ranks" / "rank0.pt.trace.json").unlink()
        shutil.copy(folder / "sub" / "kineto.json", inside / "ranks" / "rank0.pt.trace.json")
        assert answer(served, "table", recordings=["ranks"])

    def test_what_needs_nsys_is_refused_with_what_to_do(self, box):
        reply = box.call("analyze", {"recordings": ["sub/run.nsys-rep"]})
        assert reply.is_error
        assert "nsys export --type sqlite run.nsys-rep" in reply.text

    def test_a_recording_that_changed_is_read_again(self, folder, tmp_path):
        shutil.copy(folder / BAD, tmp_path / "run.sqlite")
        served = Toolbox(Folders([str(tmp_path)]))
        first = answer(served, "events", recordings=["run.sqlite"], table="memcpy")
        shutil.copy(folder / FIXED, tmp_path / "run.sqlite")
        os.utime(tmp_path / "run.sqlite", ns=(1, 1))
        second = answer(served, "events", recordings=["run.sqlite"], table="memcpy")
        assert first["sum_duration_ns"] != second["sum_duration_ns"]

    def test_a_folder_must_be_one(self, folder):
        with pytest.raises(InputError, match="is not a directory"):
            Folders([str(folder / BAD)])
        with pytest.raises(InputError, match="No such file"):
            Folders([str(folder / "none")])


class TestRandomCalls:
    def test_a_hundred_end_in_an_answer_or_one_line(self, box, folder):
        check_calls(box, folder, 100)

    @pytest.mark.slow
    def test_a_thousand_end_in_an_answer_or_one_line(self, box, folder):
        check_calls(box, folder, 1000)

    @pytest.mark.parametrize("arguments", [None, {}, {"recordings": None}, {1: 2}])
    def test_odd_arguments_are_one_line(self, box, arguments):
        check_reply(box.call("analyze", arguments))


def check_calls(box: Toolbox, folder: Path, count: int) -> None:
    before = sorted(folder.parent.rglob("*"))
    dice = random.Random(count)
    replies = [box.call(*tool_calls.call(dice)) for _ in range(count)]
    for reply in replies:
        check_reply(reply)
    assert sorted(folder.parent.rglob("*")) == before
    good = sum(not reply.is_error for reply in replies)
    assert count // 4 < good < count  # both kinds were tried


def check_reply(reply: Reply) -> None:
    assert tokens(reply.text) <= LIMIT_TOKENS, reply.text
    assert "internal error" not in reply.text
    if reply.is_error:
        assert reply.text.startswith("error: ")
        assert len(reply.text.splitlines()) == 1
        assert reply.text.isprintable()
    else:
        json.loads(reply.text)
