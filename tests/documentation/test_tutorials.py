"""Tutorials show what happens: each page's commands are run, and the rest can be parsed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import shown
from support import recording
from support.counter_host import real_host

import warpline

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
PACKED = Path(warpline.__file__).parent / "data" / "examples"
SAMPLES = {
    "input_bound.bad.warpline.xz": "faults/starved.bad.warpline.xz",
    "input_bound.fixed.warpline.xz": "faults/starved.fixed.warpline.xz",
    "pageable_h2d.bad.json.gz": "kineto/pageable_h2d.bad.json.gz",
    "target.ncu-rep.xz": "ncu/target.ncu-rep.xz",
    **{f"nccl_trace_rank_{rank}": f"flight/nccl_trace_rank_{rank}" for rank in range(4)},
}


def prose(page: Path) -> str:
    return shown.BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "warpline profile" in text or "```python" in text:
        needs_recording()
    if "$ warpline kernels plan" in text:
        with real_host():  # or skip
            pass
    assert shown.tutorial(page) == text, "run `make docs`, and read what it changes"


def needs_recording() -> None:
    pytest.importorskip("IPython")
    recording.skip_unless_possible()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_sentences_can_be_parsed(page: Path) -> None:
    for code in re.findall(r"`(warpline [^`]+)`", prose(page)):
        if len(code.split()) > 2:
            shown.parse(code)


def test_nothing_of_a_page_is_left_out() -> None:
    for page in PAGES:
        assert "```" not in prose(page), page.name
        assert not re.search(r"\n\n    \S", prose(page)), f"{page.name}: an indented block"


def test_the_index_has_all_pages_by_their_titles() -> None:
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    named = {
        name: title for title, name in re.findall(r"^\| \[(.+)\]\((\S+)\) \|", text, re.MULTILINE)
    }
    titles = {page.name: page.read_text(encoding="utf-8").partition("\n")[0] for page in PAGES}
    assert titles.pop("index.md") == "# Tutorials"
    assert titles == {name: f"# {title}" for name, title in named.items()}


def test_examples_are_the_samples_of_the_tests(data_dir: Path) -> None:
    assert {path.name for path in PACKED.iterdir()} == set(SAMPLES)
    for name, sample in SAMPLES.items():
        assert (PACKED / name).read_bytes() == (data_dir / sample).read_bytes(), name


class TestRunner:
    """What the runner would have to notice."""

    def page(self, folder: Path, text: str) -> Path:
        page = folder / "page.md"
        page.write_text(text, encoding="utf-8")
        return page

    def test_other_output_is_replaced_and_the_rest_stays_left_out(self) -> None:
        printed = "a 1\nb\nc\nd\ne 2\n"
        assert shown.abridged("a 1\n...\ne ...\n", printed) == "a 1\n...\ne ...\n"
        assert shown.abridged("a 0\n...\ne 2\n", printed) == "a 1\n...\ne 2\n"
        assert shown.abridged("a 0\n...\ne 0\n", printed) == "a 1\n...\ne 2\n"
        assert shown.abridged("other\n", printed) == printed
        assert shown.abridged("a 1\n", "") == ""

    def test_output_is_that_of_the_command(self, tmp_path: Path) -> None:
        page = self.page(tmp_path, "```console\n$ warpline --version\nno\n$ echo a; ls\nno\n```\n")
        version = f"warpline {warpline.__version__}"
        assert shown.tutorial(page) == (
            f"```console\n$ warpline --version\n{version}\n$ echo a; ls\na\n```\n"
        )

    def test_files_and_statuses(self, tmp_path: Path) -> None:
        text = "File `a.sh`:\n\n```sh\nexit 3\n```\n\n```console\n$ sh a.sh\n$ echo $?\n3\n```\n"
        assert shown.tutorial(self.page(tmp_path, text)) == text
        with pytest.raises(AssertionError, match="status 3, after"):
            shown.tutorial(self.page(tmp_path, text.replace("$ echo $?\n3\n", "")))

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("```sh\nwarpline doctor\n```\n", "neither run nor has a reason"),
            ("<!-- needs X -->\n```sh\nsrun warpline profile --nonsense a\n```\n", "--nonsense"),
            ("<!-- needs X -->\n```console\n$ ls\na\n```\n", "output of what was not run"),
            ("<!-- needs X -->\n```sh\nwarpline \\\n  nothing here\n```\n", "nothing"),
        ],
    )
    def test_what_is_not_run_is_checked(self, tmp_path: Path, text: str, reason: str) -> None:
        with pytest.raises(AssertionError, match=re.escape(reason)):
            shown.tutorial(self.page(tmp_path, text))
