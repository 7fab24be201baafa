"""The commands on the pages for agents and for users of other tools work as written."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpline.cli import main, parser
from warpline.mcp.tools import TOOLS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "agents").glob("*.md"))
OTHERS = DOCS / "from-other-tools.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# They record, serve, or wait: their words are parsed only.
_NOT_RUN = {"profile", "kernels", "attach", "mcp", "view", "launch", "start", "sweep"}


def blocks(page: Path, kind: str) -> Iterator[str]:
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if found[1] == kind:
            yield found[2]


def commands() -> list[list[str]]:
    lines = (line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines())
    return [shlex.split(line)[1:] for line in lines]


def test_commands_of_the_pages_for_agents_work(run, tmp_path, monkeypatch, bad, fixed):
    monkeypatch.chdir(tmp_path)
    for name, source in {"run": bad, "before": bad, "after": fixed}.items():
        shutil.copy(source, f"{name}.sqlite")
    found = commands()
    assert len(found) > 15
    for words in found:
        if words[:1] and words[0] in _NOT_RUN:
            parser.parse(words)
            continue
        done = run(*words)
        assert done.status == 0, (words, done.err)
        assert done.out


def test_commands_in_tables_and_sentences_parse():
    inline = re.compile(r"`(warpline [^`]+)`")
    count = 0
    for page in [*PAGES, OTHERS]:
        for line in inline.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(line.replace(" PID", " 4321"))[1:]
            if len(words) > 1:
                parser.parse(words)
                count += 1
    assert count > 15


def test_translations_on_the_page_are_what_is_printed(capsys):
    shown = "".join(blocks(OTHERS, "console"))
    parts = re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]
    assert len(parts) >= 4
    for part in parts:
        line, _, output = part.partition("\n")
        assert main(shlex.split(line)[1:]) == 0
        assert capsys.readouterr().out == output


def test_the_pages_name_the_tools_that_there_are():
    text = (DOCS / "agents" / "mcp.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [tool.name for tool in TOOLS]
    calls = [json.loads(block) for block in blocks(DOCS / "agents" / "mcp.md", "json")]
    known = {tool.name: tool for tool in TOOLS}
    for call in calls[1:]:
        assert set(call["arguments"]) <= set(known[call["name"]].arguments)
    asked = json.loads((DOCS.parent / "benchmarks/questions/questions.json").read_text("utf-8"))
    assert f"{len(asked['questions'])} questions about eight recordings" in text
    assert len(asked["recordings"]) == 8


@pytest.mark.parametrize("page", [*PAGES, DOCS / "llms.txt"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
