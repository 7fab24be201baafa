"""The self-contained page: as a file or in a notebook."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from warpline.errors import UsageError
from warpline.files import complete_file
from warpline.result import Diagnosis
from warpline.trace import Run
from warpline.units import format_bytes
from warpline.viewer.container import Container
from warpline.viewer.markup import element
from warpline.viewer.pack import Packer, TableOfStats, report_bytes
from warpline.viewer.page import Assets, assets, page

FirstPage = Literal["overview", "timeline"]

ZIP = ".zip"
# An untrusted notebook is shown without frames and style sheets, so this text is visible.
_UNTRUSTED = (
    '<p class="warpline-untrusted">To show the Warpline timeline here, trust this notebook (in'
    " JupyterLab: command Trust Notebook) or run the cell again.</p>"
    "<style>.warpline-untrusted { display: none; }</style>"
)


class Report(NamedTuple):
    """A report in memory.

    Attributes:
        pieces: The page, split at arbitrary positions.
        size: Its size in UTF-8, bytes.
        thinned: A message about the omitted events; None if none were omitted.
        head: Head of its container.
    """

    pieces: list[str]
    size: int
    thinned: str | None
    head: Mapping[str, Any]


def make_report(
    run: Run,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    max_bytes: int | None = None,
    first_page: FirstPage = "overview",
) -> Report:
    """Return the self-contained page.

    Args:
        run: The trace to show, and the choice of its steps.
        diagnosis: Its diagnosis.
        tables: Tables to include.
        max_bytes: Size limit of the file. To meet it, short events are omitted, and the page
            marks where.
        first_page: The initial page.

    Raises:
        UsageError: The file exceeds the limit even with all short events omitted.
        InputError: The viewer script is not installed.
    """
    parts = assets()
    packer = Packer(run, diagnosis, tables)
    container = packer.whole
    report = _report(diagnosis, container, parts, first_page)
    if max_bytes is None or report.size <= max_bytes:
        return report
    for _ in range(2):  # the second time including the message about omitted events
        frame = report.size - report_bytes(container)
        container = packer.within(max(max_bytes - frame, 0))
        report = _report(diagnosis, container, parts, first_page)
        if report.size <= max_bytes:
            return report
    raise UsageError(
        f"the report needs at least {format_bytes(report.size)}, but the limit is"
        f" {format_bytes(max_bytes)}",
        hint="raise the limit, or select a time range with --filter-time",
    )


def _report(
    diagnosis: Diagnosis, container: Container, parts: Assets, first_page: FirstPage
) -> Report:
    shown = replace(container, head={**container.head, "first_page": first_page})
    pieces = list(page(diagnosis, shown, parts, "inline"))
    thinned = container.head["thinned"]
    return Report(pieces, size_of(pieces), thinned and thinned["text"], shown.head)


def size_of(pieces: Iterable[str]) -> int:
    """Return the size of a page in UTF-8, bytes."""
    return sum(len(piece.encode()) for piece in pieces)


def write(path: Path, pieces: Iterable[str]) -> None:
    """Write a file atomically; InputError if it cannot be written.

    A name that ends in ``.zip`` selects an archive with the page.
    """
    with complete_file(path) as unfinished, unfinished.open("wb") as file:
        if path.suffix.lower() == ZIP:
            _write_zip(file, path.with_suffix(".html").name, pieces)
        else:
            file.writelines(piece.encode() for piece in pieces)


def _write_zip(file: IO[bytes], name: str, pieces: Iterable[str]) -> None:
    entry = zipfile.ZipInfo(name, time.localtime()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w") as archive, archive.open(entry, "w") as content:
        for piece in pieces:
            content.write(piece.encode())


@dataclass(frozen=True, repr=False)
class Inline:
    """A report that a notebook shows in an isolated frame.

    Attributes:
        html: The report.
        height: Height of the frame in pixels.
    """

    html: str
    height: int

    def __repr__(self) -> str:
        return f"<Warpline timeline, {format_bytes(len(self.html))}; display it in a notebook>"

    def _repr_html_(self) -> str:
        """Return the frame for a notebook."""
        return framed(self.html, width="100%", height=str(self.height)) + _UNTRUSTED


def framed(html: str, **attributes: str) -> str:
    """Return a page in a frame of another page, without an origin.

    Args:
        html: The page.
        attributes: Of the frame, by name.
    """
    # Not `element`, which replaces invisible characters and truncates long texts.
    # In single quotes, because a page has few of them and many double quotes.
    content = html.replace("&", "&amp;").replace("'", "&#39;")
    frame = element("iframe", sandbox="allow-scripts", **attributes)
    return frame.replace("<iframe ", f"<iframe srcdoc='{content}' ", 1)
