"""``warpline translate`` as a command: one word or several, text or JSON."""

from __future__ import annotations

import json

LINE = "nsys profile --gpuctxsw=true -t cuda -o r python 'a b.py'"
TEXT = """\
warpline profile -t cuda -o r python 'a b.py'

Left out
  --gpuctxsw=true  GPU context switches and video engines are not recorded

Differs
  nsys samples CPUs by default, Warpline on request: -s process-tree.
  CUDA graphs are recorded node by node. nsys's default: --cuda-graph-trace=graph.
  The recording is r.warpline.
"""


def test_a_line_as_one_word_or_as_several(run):
    assert run("translate", LINE) == (0, TEXT, "")
    words = ["nsys", "profile", "--gpuctxsw=true", "-t", "cuda", "-o", "r", "python", "a b.py"]
    assert run("translate", *words) == (0, TEXT, "")
    assert run("translate", "--", *words) == (0, TEXT, "")


def test_quiet_prints_the_line_only(run):
    assert run("translate", "-q", LINE).out == TEXT.splitlines()[0] + "\n"


def test_json(run):
    found = json.loads(run("translate", "-f", "json", LINE).out)
    assert found["lines"] == [TEXT.splitlines()[0]]
    assert found["left_out"][0]["flag"] == "--gpuctxsw=true"


def test_mistakes(run):
    assert run("translate").err.startswith("error: missing LINE argument")
    assert run("translate", "make all").status == 2
    assert run("translate", "-f", "yaml", LINE).err.startswith("error: unknown format 'yaml'")
    assert run("translate", "--nonsense", LINE).status == 2
