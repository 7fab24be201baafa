"""`warpline docs`: topics, and where they are shown."""

from __future__ import annotations

import io
import lzma
import webbrowser
import zipfile
from pathlib import Path

import pytest

from warpline import plugins
from warpline.cli import docs, manual, parser
from warpline.derived.kernel_limits.rules import KERNEL_RULES
from warpline.documents import explanations
from warpline.errors import UsageError, WarplineError
from warpline.result import ANALYSES, RULES
from warpline.schema import TABLES

PAGES = {
    "analyze.md": "# Where the time went\n\nBy step.\n\n## In CI\n\n```\n# not a heading\n```\n",
    "commands.md": "# Commands\n\n## analyze\n\nShow it.\n\n### Options\n\nMany.\n\n## stats\n",
    "tutorials/idle.md": "# My GPU is idle\n",
    "tables.md": "# Tables\n\n## kernel_sum\n\nReads: kernel. Aliases: `old`, `older`.\n",
    "terms.md": "# Terms\n\n## Time\n\n| term | meaning |\n|---|---|\n| CPU, host | a chip |\n",
}


def write(folder: Path, suffix: str = "") -> Path:
    for name, text in PAGES.items():
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The directory of an installed package without documentation."""
    folder = tmp_path / "lib" / "warpline"
    folder.mkdir(parents=True)
    monkeypatch.setattr(manual, "package_folder", lambda: folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def released(package, tmp_path):
    """The package of a released wheel."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in PAGES.items():
            archive.writestr(f"_sources/docs/{name}", text)
            archive.writestr(f"docs/{name.replace('.md', '.html')}", f"<pre>{text}</pre>")
    (package / manual.ARCHIVE).write_bytes(lzma.compress(content.getvalue()))
    return package


@pytest.fixture
def opened(monkeypatch):
    """What a browser was asked to open, from a terminal."""
    found: list[str] = []

    class Browser:
        def open(self, address: str) -> bool:
            found.append(address)
            return True

    monkeypatch.setattr(webbrowser, "get", Browser)
    monkeypatch.setattr(docs, "_is_piped", lambda: False)
    return found


def names() -> list[str]:
    plugins.load("analyses")
    plugins.load("kernel-rules")
    commands = [each for item in parser.commands() for each in (item, *parser.parts_of(item))]
    tables = [*ANALYSES.names(), *ANALYSES.aliases(), *TABLES]
    rules = [*RULES.names(), *RULES.aliases(), *KERNEL_RULES.names()]
    terms = [name for term in explanations.terms() for name in term.names]
    return [*(item.NAME for item in commands), *tables, *rules, *terms]


def test_every_command_table_rule_and_term_has_a_page():
    installed = manual.installed()
    for name in names():
        texts = [installed.text(topic) for topic in installed.find(name)]
        assert any(name.lower() in text.lower() for text in texts), name


def test_a_pipe_gets_markdown(run):
    done = run("docs", "kernels", "plan")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("## kernels plan\n\nShow how many passes")
    assert "\n## kernels sweep" not in done.out
    assert run("docs", "KERNELS_plan") == done
    assert run("docs", "commands#kernels-plan") == done


def test_the_first_page_is_the_default(run):
    assert run("docs").out.startswith("# Warpline\n")


def test_unknown_topics_get_suggestions(run):
    assert run("docs", "analize").err.splitlines()[1].startswith("hint: did you mean analyze")
    assert run("docs", "speedscope.app").err.splitlines() == [
        "error: the documentation has no topic 'speedscope.app'",
        "hint: pages that mention it: flame",
    ]
    assert run("docs", "zzzz\x1b").err.splitlines()[1].startswith("hint: run warpline docs --print")


def test_pages_precede_headings_and_sections_end_where_others_begin(package):
    write(package / "docs")
    installed = manual.installed()
    assert list(map(str, installed.find("analyze"))) == ["analyze", "commands#analyze"]
    assert installed.text(manual.Topic("commands", "analyze")) == (
        "## analyze\n\nShow it.\n\n### Options\n\nMany.\n\n"
    )
    assert str(installed.find("in ci")[0]) == "analyze#in-ci"
    assert str(installed.find("idle")[0]) == "tutorials/idle"
    assert str(installed.find("older")[0]) == "tables#kernel_sum"
    assert installed.text(installed.find("host")[0]) == "**CPU, host**: a chip"
    with pytest.raises(UsageError):
        installed.find("not a heading")


def test_a_released_wheel_opens_the_section_in_a_browser(run, released, opened, tmp_path):
    done = run("docs", "stats")
    (address,) = opened
    assert done.out == f"{address}\n"
    page, _, anchor = address.removeprefix("file://").partition("#")
    assert anchor == "stats"
    assert Path(page).read_text(encoding="utf-8") == f"<pre>{PAGES['commands.md']}</pre>"
    assert Path(page).is_relative_to(tmp_path / "cache" / "warpline")
    before = Path(page).stat().st_mtime_ns
    assert run("docs", "commands").out == f"{address.partition('#')[0]}\n"
    assert Path(page).stat().st_mtime_ns == before, "it is unpacked once"


def test_what_has_several_pages_names_the_others(run, released, opened):
    assert run("docs", "analyze").err == "hint: see also: warpline docs commands#analyze\n"


@pytest.mark.parametrize("problem", ["no browser", "no HTML", "read-only", "--print"])
def test_otherwise_the_page_is_printed(run, released, opened, monkeypatch, problem, tmp_path):
    if problem == "no browser":

        def none() -> None:
            raise webbrowser.Error

        monkeypatch.setattr(webbrowser, "get", none)
    elif problem == "no HTML":
        (released / manual.ARCHIVE).unlink()
        write(released / "docs")
    elif problem == "read-only":
        (tmp_path / "cache").write_text("a file, not a directory")
    done = run("docs", "stats", *(["--print"] if problem == "--print" else []))
    assert (done.status, opened) == (0, [])
    assert "stats" in done.out
    assert ("warning: cannot unpack the documentation" in done.err) == (problem == "read-only")


def test_an_installation_without_documentation_says_so(package):
    with pytest.raises(WarplineError, match="has no documentation"):
        manual.installed()


def test_a_source_tree_uses_the_site_that_was_built(repository, tmp_path, monkeypatch):
    source = tmp_path / "source"
    write(source / "docs")
    (source / "docs" / "website").mkdir()
    (source / "docs" / "website" / "conf.py").touch()
    monkeypatch.setattr(manual, "package_folder", lambda: source / "src" / "warpline")
    assert manual.installed().address(manual.Topic("analyze")) is None
    page = source / "build" / "site" / "docs" / "analyze.html"
    page.parent.mkdir(parents=True)
    page.touch()
    installed = manual.installed()
    assert installed.address(manual.Topic("analyze", "in-ci")) == f"{page.as_uri()}#in-ci"
    assert installed.address(manual.Topic("terms")) is None, "the site is older than the page"
