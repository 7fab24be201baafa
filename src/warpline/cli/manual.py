"""The documentation that comes with Warpline: its pages, and what each is about.

Pages are Markdown, in every installation. Released wheels have the built site, too, in one archive
with the pages in it; in a source tree it is where ``make site`` builds it.
"""

from __future__ import annotations

import functools
import io
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.lazy import lazy_pattern

if TYPE_CHECKING:
    import difflib
    import lzma
    import shutil
    import zipfile
    from importlib import resources
    from importlib.resources.abc import Traversable

    from warpline.remote import bootstrap
else:
    difflib = lazy("difflib")
    lzma = lazy("lzma")
    shutil = lazy("shutil")
    zipfile = lazy("zipfile")
    resources = lazy("importlib.resources")
    bootstrap = lazy("warpline.remote.bootstrap")

ARCHIVE = "site.zip.xz"  # of a released wheel, see release/site_archive.py
FIRST_PAGE = "index"

# Their headings are names; other headings are sentences, which give way to them.
_REFERENCE = ("commands", "rules", "tables", "schema", "python", "json")
_WITH_TERMS = ("glossary", "terms")
_FENCE = "```"
_HEADING = lazy_pattern(r"(#{1,6}) +(.+)")
_ALIASES = lazy_pattern(r"\bAliase?s?: ((?:`[^`]+`(?:, )?)+)")
# An entry of the glossary, or a row of the terms by subject.
_TERM = lazy_pattern(r"\*\*(?P<entry>[^*]+)\*\*:|\| (?P<row>[^|]+?) \| ([^|]+?) \|")
_COMMENT = lazy_pattern(r"<!--.*?-->\n*")
_LINK = lazy_pattern(r"\[([^\]]*)\]\([^)]*\)")
_NOT_IN_ANCHORS = lazy_pattern(r"[^\w\- ]")
_AT_MOST = 5


class Folder(Protocol):
    """A folder of pages, of a file system or in an archive."""

    @property
    def name(self) -> str:
        """The last part of its path."""

    def iterdir(self) -> Iterator[Folder]:
        """Yield what is in it."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def read_text(self, encoding: str) -> str:
        """Return the text of a file."""


@dataclass(frozen=True)
class Topic:
    """What a page, or a section of one, is about.

    Attributes:
        page: The page's path in the documentation, without a suffix.
        anchor: The section's anchor, as of a heading on GitHub; empty for the whole page.
        entry: The line about it, if it is a term; else empty.
    """

    page: str
    anchor: str = ""
    entry: str = ""

    def __str__(self) -> str:
        return f"{self.page}#{self.anchor}" if self.anchor else self.page


@dataclass(frozen=True)
class Manual:
    """The documentation of this installation.

    Attributes:
        pages: The text of each page in Markdown, by its path without a suffix.
        site: The folder of the built site, or the archive that has it; None if there is none.
    """

    pages: dict[str, str]
    site: Path | None

    def find(self, name: str) -> list[Topic]:
        """Return what is of this name, the most specific first.

        Raises:
            UsageError: There is nothing; the hint has names like it, or pages that mention it.
        """
        page, _, anchor = name.partition("#")
        if anchor in {heading.anchor for heading in _headings(self.pages.get(page, ""))}:
            return [Topic(page, anchor)]
        known = self.topics
        if _key(name) in known:
            return known[_key(name)]
        near = difflib.get_close_matches(_key(name), known, n=3)
        words = _key(name).split("-")
        near = near or [key for key in known if all(word in key for word in words)][:3]
        hint = f"did you mean {' or '.join(near)}?" if near else self._mentions(name)
        raise UsageError(f"the documentation has no topic {name!r}", hint=hint)

    def text(self, topic: Topic) -> str:
        """Return a topic in Markdown."""
        if topic.entry:
            return topic.entry
        page = _COMMENT.sub("", self.pages[topic.page])
        if not topic.anchor:
            return page
        lines = page.splitlines(keepends=True)
        headings = list(_headings(page))
        at = next(place for place, each in enumerate(headings) if each.anchor == topic.anchor)
        rest = (each.line for each in headings[at + 1 :] if each.level <= headings[at].level)
        return "".join(lines[headings[at].line : next(rest, len(lines))])

    def address(self, topic: Topic) -> str | None:
        """Return the URL of a topic on the built site; None if there is no site here.

        Raises:
            WarplineError: The site cannot be unpacked.
        """
        if self.site is None:
            return None
        page = _folder_of(self.site) / "docs" / f"{topic.page}.html"
        return f"{page.as_uri()}#{topic.anchor}".rstrip("#") if page.is_file() else None

    @functools.cached_property
    def topics(self) -> dict[str, list[Topic]]:
        """Return all topics by the names that lead to them."""
        found: dict[str, list[Topic]] = {}

        def add(name: str, topic: Topic) -> None:
            listed = found.setdefault(_key(name), [])
            if topic not in listed:
                listed.append(topic)

        pages = sorted(self.pages, key=lambda page: (page.count("/"), page))
        for page in pages:
            add(page, Topic(page))
            add(page.rpartition("/")[2], Topic(page))
        in_order = [*(page for page in _REFERENCE if page in self.pages), *pages]
        for page in dict.fromkeys(in_order):
            for heading in _headings(self.pages[page]):
                topic = Topic(page, heading.anchor if heading.level > 1 else "")
                for name in (heading.title, *heading.aliases):
                    add(name.removeprefix("warpline."), topic)
        for page in _WITH_TERMS:
            for name, topic in _terms(page, self.pages.get(page, "")):
                add(name, topic)
        return found

    def _mentions(self, name: str) -> str:
        """Return a hint with the pages that mention a name, those that do so most first."""
        word = name.lower()
        counts = {page: text.lower().count(word) for page, text in self.pages.items()}
        found = sorted(filter(counts.__getitem__, counts), key=lambda page: -counts[page])
        if word and found:
            return f"pages that mention it: {', '.join(found[:_AT_MOST])}"
        return "run warpline docs --print for the first page, warpline list for names"


@dataclass(frozen=True)
class _Heading:
    """A heading of a page: its line counts from 0; aliases are names in its section."""

    title: str
    level: int
    line: int
    anchor: str
    aliases: list[str]


def package_folder() -> Traversable:
    """Return the folder of the installed package."""
    return resources.files("warpline")


def installed() -> Manual:
    """Return the documentation of this installation.

    Raises:
        WarplineError: It has none.
    """
    package = package_folder()
    source = Path(str(package)).parents[1]
    archive = Path(str(package / ARCHIVE))
    if (source / "docs" / "website" / "conf.py").is_file():  # a source tree
        site = source / "build" / "site"
        return Manual(_read(source / "docs"), site if site.is_dir() else None)
    if archive.is_file():
        return Manual(_read(zipfile.Path(_opened(archive), "_sources/docs/")), archive)
    try:
        return Manual(_read(package / "docs"), None)
    except OSError:
        raise WarplineError(
            "this installation has no documentation", hint="warpline explain NAME, --help"
        ) from None


def _opened(archive: Path) -> zipfile.ZipFile:
    """Return the content of an archive. Its files are compressed together: they are alike.

    Raises:
        WarplineError: This Python lacks the module lzma, or the file is damaged.
    """
    try:
        return zipfile.ZipFile(io.BytesIO(lzma.decompress(archive.read_bytes())))
    except ImportError:
        raise WarplineError(
            "the documentation needs Python's module lzma, which this Python was built without",
            hint="warpline explain NAME, --help",
        ) from None
    except (lzma.LZMAError, zipfile.BadZipFile) as error:
        raise WarplineError(f"{archive} is damaged: {error}", hint="reinstall Warpline") from None


def _read(folder: Folder) -> dict[str, str]:
    """Return the pages of a folder by path."""
    return {
        path.removesuffix(".md"): file.read_text(encoding="utf-8")
        for path, file in _files(folder)
        if path.endswith(".md")
    }


def _files(folder: Folder, above: str = "") -> Iterator[tuple[str, Folder]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, f"{above}{item.name}/")
        else:
            yield f"{above}{item.name}", item


def _headings(text: str) -> Iterator[_Heading]:
    """Yield the headings of a page."""
    taken: dict[str, int] = {}
    last: _Heading | None = None
    is_code = False
    for number, line in enumerate(_COMMENT.sub("", text).splitlines()):
        is_code ^= line.lstrip().startswith(_FENCE)
        found = None if is_code else _HEADING.fullmatch(line)
        if found is not None:
            if last is not None:
                yield last
            title = _LINK.sub(r"\1", found[2]).replace("`", "").strip()
            anchor = _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
            again = taken[anchor] = taken.get(anchor, -1) + 1
            anchor = f"{anchor}-{again}" if again else anchor
            last = _Heading(title, len(found[1]), number, anchor, [])
        elif last is not None and not is_code:
            for names in _ALIASES.findall(line):
                last.aliases.extend(name.strip("`") for name in names.split(", "))
    if last is not None:
        yield last


def _terms(page: str, text: str) -> Iterator[tuple[str, Topic]]:
    """Yield the terms of a page by name."""
    headings = list(_headings(text))
    for number, line in enumerate(_COMMENT.sub("", text).splitlines()):
        found = _TERM.match(line)
        if found is None:
            continue
        anchor = next((each.anchor for each in reversed(headings) if each.line < number), "")
        entry = line if found["entry"] else f"**{found['row']}**: {found[3]}"
        for name in (found["entry"] or found["row"]).split(", "):
            yield name, Topic(page, anchor, entry)


def _key(name: str) -> str:
    """Return what names that mean the same have in common."""
    return "-".join(re.split(r"[\s_-]+", name.strip().strip("`").lower()))


def _folder_of(site: Path) -> Path:
    """Return the folder of a site; an archive is unpacked to the user's cache, once.

    Raises:
        WarplineError: It cannot be written.
    """
    if site.is_dir():
        return site
    folder = bootstrap.cache() / f"docs-{zlib.crc32(site.read_bytes()):08x}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _opened(site).extractall(unfinished)
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # or another command was faster
            raise WarplineError(
                f"cannot unpack the documentation to {folder}: {error.strerror}",
                hint="set XDG_CACHE_HOME to another directory, or use --print",
            ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
