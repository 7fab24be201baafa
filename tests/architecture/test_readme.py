"""What the README shows is what happens; docs/generate.py takes care of its commands."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from warpline import plugins
from warpline.cli.parser import commands
from warpline.result import RULES

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_shown_python_gives_what_is_shown(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    examples = "".join(re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "README", "README.md", 0)
    assert len(test.examples) > 5
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_named_targets_exist(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^    make (\w+)", README, re.MULTILINE))
    assert named == {"demo", "test"}
    assert named <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def test_named_commands_exist() -> None:
    row = re.search(r"^\| Commands \| (.*)$", README, re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row[1])) == {item.NAME for item in commands()}


def test_the_number_of_rules_is_that_of_rules() -> None:
    plugins.load("analyses")
    told = re.search(r"(\d+) rules that recommend", README)
    assert told is not None
    assert int(told[1]) == len(RULES.names())
