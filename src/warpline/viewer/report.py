"""The page with everything in it: as a file, in a notebook, or from a local server."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, NamedTuple

from warpline.errors import UsageError
from warpline.files import complete_file
from warpline.result import Diagnosis
from warpline.trace import Trace
from warpline.units import format_bytes
from warpline.viewer.container import Container
from warpline.viewer.markup import element
from warpline.viewer.pack import TableOfStats, pack, report_bytes
from warpline.viewer.page import Assets, assets, page

FirstPage = Literal["overview", "timeline"]

ZIP = ".zip"
# A notebook of somebody else is shown without frames and style sheets, so that this is seen.
_UNTRUSTED = (
    '<p class="warpline-untrusted">A timeline of Warpline stands here. It is shown where the'
    " notebook is trusted (in JupyterLab: Trust Notebook, among the commands) or run again.</p>"
    "<style>.warpline-untrusted { display: none; }</style>"
)


class Report(NamedTuple):
    """A report that is not written yet.

    Attributes:
        pieces: The page, cut anywhere.
        size: Its bytes in UTF-8.
        thinned: What was left out, a sentence or two; None if nothing was.
    """

    pieces: list[str]
    size: int
    thinned: str | None


def make_report(
    trace: Trace,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
    first_page: FirstPage = "overview",
) -> Report:
    """Return the page with everything in it.

    Args:
        trace: What to show.
        diagnosis: Of that trace.
        tables: Tables to show beside it.
        steps: What the ranges that are steps are called; None finds them.
        max_bytes: How large the file may be. Where it would be larger, short events are left
            out, and the page says which.
        first_page: What it shows first.

    Raises:
        UsageError: The file is larger than that whatever is left out.
        InputError: The viewer's script is not installed.
    """
    parts = assets()
    container = pack(trace, diagnosis, tables, steps=steps)
    report = _report(diagnosis, container, parts, first_page)
    if max_bytes is None or report.size <= max_bytes:
        return report
    for _ in range(2):  # the second time with what the page says of being thinned
        frame = report.size - report_bytes(container)
        container = pack(trace, diagnosis, tables, steps=steps, max_bytes=max(max_bytes - frame, 0))
        report = _report(diagnosis, container, parts, first_page)
        if report.size <= max_bytes:
            return report
    raise UsageError(
        f"the report takes at least {format_bytes(report.size)}, more than"
        f" {format_bytes(max_bytes)}",
        hint="allow more, or choose a part with --filter-time",
    )


def _report(
    diagnosis: Diagnosis, container: Container, parts: Assets, first_page: FirstPage
) -> Report:
    shown = replace(container, head={**container.head, "first_page": first_page})
    pieces = list(page(diagnosis, shown, parts, "inline"))
    thinned = container.head["thinned"]
    return Report(pieces, _size(pieces), thinned and thinned["text"])


def _size(pieces: Iterable[str]) -> int:
    return sum(len(piece.encode()) for piece in pieces)


def write(path: Path, pieces: Iterable[str]) -> None:
    """Write a file that is complete when it appears; InputError if it cannot be written.

    A name that ends in ``.zip`` gets an archive with the page in it.
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
    """A report that a notebook shows in a frame of its own, which shares nothing with the page.

    Attributes:
        html: The report.
        height: Of the frame, in pixels.
    """

    html: str
    height: int

    def __repr__(self) -> str:
        return f"<Timeline of {format_bytes(len(self.html))}; a notebook shows it>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        # No `element`, which makes unseen characters visible and cuts long texts: this is a page.
        # Between apostrophes, because a page has few of them and many quotation marks.
        content = self.html.replace("&", "&amp;").replace("'", "&#39;")
        frame = element("iframe", sandbox="allow-scripts", width="100%", height=str(self.height))
        return frame.replace("<iframe ", f"<iframe srcdoc='{content}' ", 1) + _UNTRUSTED
