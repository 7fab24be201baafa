"""The documentation site: what it loads, and that nothing is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import components
import pytest
from support import site

import warpline
from warpline.cli import manual

_LOADS = {"src", "srcset", "poster", "data"}
_FROM_ELSEWHERE = re.compile(r"\s*(?:https?:)?//")
_IN_STYLES = re.compile(r"(?:@import|url\()\s*[\"']?\s*(?:https?:)?//[^)\"']*")


class Page(HTMLParser):
    """What a page loads, and the ids of its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in _LOADS or (name == "href" and tag in {"link", "use"})):
                self.loads.append(value)
            if value and name == "id":
                self.ids.add(value)


@pytest.fixture(scope="module")
def folder() -> Path:
    return site.built()


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, Page]:
    return {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }


def _from_elsewhere(folder: Path, pages: dict[str, Page]) -> Iterator[str]:
    for name, page in pages.items():
        yield from (f"{name}: {load}" for load in page.loads if _FROM_ELSEWHERE.match(load))
    for path in folder.rglob("*.css"):
        yield from _IN_STYLES.findall(path.read_text(encoding="utf-8"))


def test_pages_load_nothing_from_elsewhere(folder, pages):
    assert len(pages) > 60
    assert all(page.loads for name, page in pages.items() if name.startswith("docs/a"))
    assert list(_from_elsewhere(folder, pages)) == []


def test_loads_from_elsewhere_would_be_found(tmp_path):
    (tmp_path / "a.css").write_text("@import url( 'https://a.example/b.css')", encoding="utf-8")
    text = '<img src="//a.example/b.png"><a href="https://a.example"></a><img src="a.png">'
    found = list(_from_elsewhere(tmp_path, {"a.html": Page(text)}))
    assert found == ["a.html: //a.example/b.png", "@import url( 'https://a.example/b.css"[8:]]


def test_every_topic_leads_to_a_heading_on_the_site(folder, pages):
    installed = manual.installed()
    topics = {topic for found in installed.topics.values() for topic in found}
    assert len(topics) > 500
    missing = [
        str(topic)
        for topic in topics
        if topic.anchor and topic.anchor not in pages[f"docs/{topic.page}.html"].ids
    ]
    assert missing == []


def test_nothing_names_a_directory_of_this_machine(folder, repository):
    text = str(repository).encode()
    assert [
        path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()
    ] == []


def test_options_keep_their_dashes(folder):
    text = (folder / "docs" / "commands.html").read_text(encoding="utf-8")
    assert " by --fail-on, or a gate " in text
    assert "\N{EN DASH}fail-on" not in text


def test_the_version_of_a_script_that_sphinx_brings(folder):
    text = (folder / "_static" / "english-stemmer.js").read_text(encoding="utf-8")
    assert f"Snowball {components.SNOWBALL} " in text


def test_the_first_page_shows_what_the_readme_shows(repository):
    readme = (repository / "README.md").read_text(encoding="utf-8")
    page = (repository / "docs" / "index.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```console\n\$ warpline analyze \S+\n(.*?)\n…?\n?```", page, re.DOTALL)
    for part in shown.split("\n…\n"):
        assert f"\n{part}\n" in readme


def test_every_public_name_is_on_the_page_on_python(repository):
    text = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    missing = [
        name
        for name in warpline.__all__
        if f"## warpline.{name}\n" not in text and f"- `{name}`: " not in text
    ]
    assert missing == []
