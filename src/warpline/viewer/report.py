"""The page with everything in it: as a file, in a notebook, or from a local server."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpline.errors import InputError, UsageError
from warpline.result import Diagnosis
from warpline.trace import Trace
from warpline.units import format_bytes
from warpline.viewer.markup import element
from warpline.viewer.pack import TableOfStats, pack, report_bytes
from warpline.viewer.page import assets, page, policy
from warpline.viewer.server import PageServer


def report_pieces(
    trace: Trace,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
) -> list[str]:
    """Return a report as pieces of text.

    Args:
        trace: What to show.
        diagnosis: Of that trace.
        tables: Tables to show beside it.
        steps: What the ranges that are steps are called; None finds them.
        max_bytes: How large the file may be. Where it would be larger, short events are left
            out, and the page says which.

    Raises:
        UsageError: The file is larger than that whatever is left out.
        InputError: The viewer's script is not installed.
    """
    parts = assets()
    container = pack(trace, diagnosis, tables, steps=steps)
    pieces = list(page(diagnosis, container, parts, "inline"))
    if max_bytes is None or _size(pieces) <= max_bytes:
        return pieces
    frame = _size(pieces) - report_bytes(container)
    container = pack(trace, diagnosis, tables, steps=steps, max_bytes=max(max_bytes - frame, 0))
    pieces = list(page(diagnosis, container, parts, "inline"))
    size = _size(pieces)
    if size > max_bytes:
        raise UsageError(
            f"the report takes at least {format_bytes(size)}, more than {format_bytes(max_bytes)}",
            hint="allow more, or choose a part with --filter-time",
        )
    return pieces


def _size(pieces: Iterable[str]) -> int:
    return sum(len(piece.encode()) for piece in pieces)


def write(path: Path, pieces: Iterable[str]) -> None:
    """Write a file that is complete when it appears; InputError if it cannot be written."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def page_server(
    trace: Trace,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    steps: str | None = None,
    port: int = 0,
) -> PageServer:
    """Return a server of the page, which does not run yet.

    Args:
        trace: What to show.
        diagnosis: Of that trace.
        tables: Tables to show beside it.
        steps: What the ranges that are steps are called; None finds them.
        port: Where to listen; 0 takes a free one.

    Raises:
        InputError: The port is taken, or the viewer's script is not installed.
    """
    parts = assets()
    container = pack(trace, diagnosis, tables, steps=steps)
    content = "".join(page(diagnosis, container, parts, "http")).encode()
    blocks = [block.data for block in container.blocks]
    try:
        return PageServer(content, blocks, policy(parts, "http"), port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "without --port a free one is taken"
        raise InputError(f"port {port} cannot be used: {reason}", hint=hint) from None


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
        content = self.html.replace("&", "&amp;").replace('"', "&quot;")
        frame = element("iframe", sandbox="allow-scripts", width="100%", height=str(self.height))
        return frame.replace("<iframe ", f'<iframe srcdoc="{content}" ', 1)
