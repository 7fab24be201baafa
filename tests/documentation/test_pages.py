"""The guides: their Python runs, translations have the same commands, figures are those measured.

What their commands print is compared by docs/generate.py --check.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

from warpline.cli import parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONCEPTS = sorted((DOCS / "concepts").glob("*.md"))
LANGUAGES = ("ko", "zh")
MEASURED = ("findings.md", "kernels.md")
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(warpline [^`]+)`")
_INDENTED = re.compile(r"^    (\S.*?)(?:  +#.*)?$", re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def commands(page: str) -> list[str]:
    """Return the commands of a page that are not run: indented, without the comment."""
    return _INDENTED.findall(_CONSOLE.sub("", page))


def rows(page: str) -> list[list[str]]:
    """Return the cells of the rows of all tables."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]


def test_python_of_concepts_gives_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for recording in (ROOT / "src" / "warpline" / "data").glob("*.sqlite"):
        shutil.copy(recording, tmp_path)
    monkeypatch.chdir(tmp_path)
    examples = 0
    for path in CONCEPTS:
        text = "".join(_PYTHON.findall(read(path)))
        test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
        examples += len(test.examples)
        assert doctest.DocTestRunner().run(test).failed == 0
    assert examples >= 10


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_commands_of_the_english_page(language: str) -> None:
    english, other = read(DOCS / "quickstart.md"), read(DOCS / language / "quickstart.md")
    assert commands(english) == commands(other)
    assert _CONSOLE.findall(english) == _CONSOLE.findall(other)
    numbers = re.compile(r"\d+\.\d+")
    assert set(numbers.findall(english)) == set(numbers.findall(other))
    targets = [
        re.findall(r"\]\((?:\.\./)?([^)]+)\)", page.partition("## 1.")[2])
        for page in (english, other)
    ]
    assert targets[0] == targets[1]


def test_commands_of_the_guides_parse() -> None:
    pages = [DOCS / "quickstart.md", DOCS / "windows.md", *CONCEPTS]
    lines = [line for page in pages for line in commands(read(page))]
    inline = [*pages, DOCS / "troubleshooting.md", DOCS / "ko/quickstart.md"]
    lines += [line for page in inline for line in _INLINE.findall(read(page)) if "…" not in line]
    found = [shlex.split(line)[1:] for line in lines if line.startswith("warpline ")]
    assert len(found) >= 40
    for words in found:
        if len(words) == 1:  # a command by its name
            assert parser.find(words[0]), words
        elif words[:2] != ["attach", "needs"]:  # an error text
            parser.parse(words)


def test_predictions_are_those_of_the_reference_pages() -> None:
    """Each row with a predicted and a measured time is in the page that has them all."""
    measured = [cells for page in MEASURED for cells in rows(read(DOCS / page))]
    shown = [
        cells
        for cells in rows(read(DOCS / "concepts" / "savings.md"))
        if any(re.search(r"\d \(\d", cell) for cell in cells)
    ]
    assert len(shown) >= 15
    for program, *cells in shown:
        figures = {cell for cell in cells if re.match(r"[+-]?\d", cell)}
        assert any(row[0] == program and figures <= set(row) for row in measured), program
