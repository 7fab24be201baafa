"""Configuration of the documentation site, which `make site` builds into build/site.

Sources are the Markdown files where they are, so that links between them also work where a
repository is browsed. A page takes its place in the navigation by its path, so a new one appears by
itself; one that no pattern places fails the build.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import warpline  # noqa: E402

# Section to pages, in order; a page belongs to the first pattern that matches it.
NAVIGATION = {
    "Start": ("docs/quickstart", "README", "docs/windows", "docs/troubleshooting"),
    "Tutorials": (
        "docs/tutorials/index",
        "docs/tutorials/gpu-*",
        "docs/tutorials/job-*",
        "docs/tutorials/slow-*",
        "docs/tutorials/step-*",
        "docs/tutorials/*",
    ),
    "Concepts": ("docs/concepts/index", "docs/concepts/*", "docs/harm"),
    "Recording": (
        "docs/profiling",
        "docs/pytorch",
        "docs/attaching",
        "docs/sessions",
        "docs/keeping",
        "docs/recording-jobs",
        "docs/remote",
        "docs/live",
        "docs/sampling",
        "docs/python-sampling",
        "docs/sampling-timers",
        "docs/osrt",
        "docs/library-calls",
        "docs/gpu-metrics",
        "docs/health",
    ),
    "Analysis": (
        "docs/analyze",
        "docs/findings",
        "docs/timeline",
        "docs/host",
        "docs/memory",
        "docs/flame",
        "docs/kernels",
        "docs/bench",
        "docs/sweep",
        "docs/graphcheck",
        "docs/fleet",
        "docs/notebook",
    ),
    "Comparison": ("docs/compare", "docs/gate", "docs/ci", "docs/pytest"),
    "Other tools": (
        "docs/from-other-tools",
        "docs/differences-from-nsys",
        "docs/nsys-exports",
        "docs/pytorch-profiler",
        "docs/memory-snapshots",
    ),
    "Reference": (
        "docs/commands",
        "docs/rules",
        "docs/tables",
        "docs/schema",
        "docs/python",
        "docs/json",
        "docs/kernel-classes",
        "docs/glossary",
        "docs/terms",
    ),
    "Agents": ("docs/agents/SKILL", "docs/agents/*"),
    "Other languages": ("docs/ko/*", "docs/zh/*"),
    "Project": (
        "CHANGELOG",
        "CONTRIBUTING",
        "ARCHITECTURE",
        "docs/packaging",
        "docs/benchmarks",
        "docs/public-traces",
        "SECURITY",
        "CODE_OF_CONDUCT",
    ),
    "More guides": ("docs/*",),
}
# In place of the picture of a report, one that can be used.
_PICTURE = re.compile(r"^!\[The report: .*$", re.MULTILINE)
_REPORT = (
    '<iframe class="report" src="report.html" title="A report of Warpline" loading="lazy"></iframe>'
    '\n\n<a href="report.html">Open the report alone.</a>'
)
_LANGUAGE = re.compile(r"docs/(ko|zh)/")
_TITLES = {"README": "Overview"}  # where a heading does not say what a page is

project = "Warpline"
version = release = warpline.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "native", "src", "tests", "viewer"]  # not looked into
extensions = ["myst_parser"]
myst_heading_anchors = 6  # links to headings, as on a repository's pages, are checked
nitpicky = True
smartquotes = False  # --option stays what is typed
html_theme = "furo"
html_title = "Warpline"
html_extra_path = ["top"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sourcelink_suffix = ""  # the pages as Markdown, too: `warpline docs` prints them
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
# A search fetches its summaries from the pages, which browsers refuse for files.
html_show_search_summary = False


def navigation(pages: set[str]) -> str:
    """Return the tables of contents of the sections."""
    rest = sorted(pages - {root_doc})
    sections = []
    for caption, patterns in NAVIGATION.items():
        found: dict[str, None] = {}
        for pattern in patterns:
            matching = re.compile(fnmatch.translate(pattern).replace(".*", "[^/]*"))
            found |= dict.fromkeys(page for page in rest if matching.match(page))
        rest = [page for page in rest if page not in found]
        lines = [f"{_TITLES[page]} </{page}>" if page in _TITLES else f"/{page}" for page in found]
        options = [":hidden:", f":caption: {caption}"]
        if found:
            sections.append("\n".join(["```{toctree}", *options, "", *lines, "```"]))
    return "\n\n".join(sections)


def _write_report(app: Sphinx) -> None:
    """Write the report that the first page shows, with the command that users have."""
    recording = ROOT / "src" / "warpline" / "data" / "pageable_h2d.bad.sqlite"
    page = Path(app.outdir) / "docs" / "report.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    words: list[str | Path] = ["report", "--quiet", "--force-overwrite", "-o", page, recording.name]
    subprocess.run(
        [sys.executable, "-m", "warpline", *words],
        check=True,
        stdout=subprocess.DEVNULL,  # its path
        cwd=recording.parent,  # so that the report names no directory of this machine
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def _complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the first page what is on the site only."""
    if page == root_doc:
        text, pictures = _PICTURE.subn(_REPORT, source[0])
        assert pictures == 1
        source[0] = f"{text}\n\n{navigation(app.env.found_docs)}\n"


def _assist(app: Sphinx, page: str, template: str, context: dict[str, Any], _: object) -> None:
    """Add what readers without a mouse or a screen need: levels, code to scroll, languages."""
    for name, old, new in (
        ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
        ("body", "<pre>", '<pre tabindex="0">'),
    ):
        context[name] = context.get(name, "").replace(old, new)
    if language := _LANGUAGE.match(page):
        context["language"] = language[1]


def setup(app: Sphinx) -> None:
    """Extend Sphinx."""
    app.connect("builder-inited", _write_report)
    app.connect("env-get-outdated", lambda *_: [root_doc])  # a new page may have come
    app.connect("source-read", _complete)
    app.connect("html-page-context", _assist, priority=900)  # when furo has made it
