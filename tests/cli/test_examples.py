"""The examples in the help of commands: each has some, and they are accepted."""

from __future__ import annotations

import shlex

import pytest

from warpline.cli import parser
from warpline.cli.examples import EXAMPLES

COMMANDS = [each for item in parser.commands() for each in (item, *parser.parts_of(item))]
LINES = [(name, line) for name, lines in EXAMPLES.items() for line in lines]


def test_every_command_has_examples():
    assert {item.NAME for item in COMMANDS} == set(EXAMPLES)


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda text: text)
def test_an_example_is_accepted(name, line):
    words = shlex.split(line.partition(" > ")[0])
    assert words.pop(0) == "warpline"
    assert len(line) <= 96, "it fits the help"
    if name == "summary" and words[0] != name:
        words.insert(0, "summary")
    chosen = parser.find(words.pop(0))
    assert chosen is not None
    if isinstance(chosen, parser.HasParts) and (part := chosen.part(words)) is not None:
        if words[0] == part.NAME.rpartition(" ")[2]:
            del words[0]
        chosen = part
    assert chosen.NAME.startswith(name)
    if isinstance(chosen, parser.OwnGrammar):
        chosen.read(words)
    else:
        parser.parser_of(chosen).read(words)


def test_the_help_ends_with_them(run):
    done = run("demo", "--help")
    assert done.out.endswith("\n\nexamples:\n  warpline demo\n  warpline demo --copy .\n")
    assert "  warpline kernels plan --chip GH100 --set full" in run("kernels", "plan", "--help").out
