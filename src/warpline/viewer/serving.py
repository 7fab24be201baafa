"""The page on a local server: with all events, or with tiles if there are too many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from warpline.errors import InputError, WarplineError
from warpline.trace import Run, Trace
from warpline.units import format_count
from warpline.viewer.attributes import EVENT_TABLES
from warpline.viewer.container import Container
from warpline.viewer.pack import pack
from warpline.viewer.page import Assets, assets, page, policy
from warpline.viewer.sampled_rows import sample_count
from warpline.viewer.server import PageServer, Site
from warpline.viewer.tiled import TiledPage, View

TILE_FROM = 1_000_000  # a diagnosis of more would delay the timeline
_SHORT_TURN_S = 0.0005
_DEVICE_TABLES = EVENT_TABLES[:3]  # busy time is also shown in the state rows

Tell = Callable[[str], None]


def page_server(
    run: Run,
    view: View,
    *,
    port: int = 0,
    tile_from: int = TILE_FROM,
    tell: Tell = lambda _: None,
) -> PageServer:
    """Return a server of the page, not yet running.

    A recording with very many events is shown with tiles immediately; its diagnosis is computed
    while the server runs.

    Args:
        run: The trace to show, and the choice of its steps.
        view: Computes the diagnosis and the tables.
        port: Port to listen on; 0 selects a free one.
        tile_from: Smallest number of events to show with tiles.
        tell: Receives progress messages.

    Raises:
        InputError: The port is in use, there is no space for the events of a large recording, or
            the viewer script is not installed.
    """
    parts = assets()
    count = _events(run.trace)
    if count < tile_from:
        diagnosis, tables = view()
        container = pack(run, diagnosis, tables)
        content = "".join(page(diagnosis, container, parts, "http")).encode()
        return listening(content, _blocks(container), parts, port)
    tell(f"preparing about {format_count(count)} events; the diagnosis follows")
    tiled = TiledPage(run)
    container = tiled.container(None)
    content = "".join(page(None, container, parts, "http")).encode()
    server = listening(content, _blocks(container), parts, port, tiled)
    server.meanwhile = lambda: _diagnose(server, tiled, view, parts, tell)
    return server


def report_server(pieces: Sequence[str], parts: Assets, port: int) -> PageServer:
    """Return a server of a self-contained page, not yet running.

    Args:
        pieces: The page.
        parts: Its script and style sheets.
        port: Port to listen on; 0 selects a free one.

    Raises:
        InputError: The port is in use.
    """
    try:
        return PageServer("".join(pieces).encode(), (), policy(parts, "inline"), port)
    except (OSError, OverflowError) as error:
        raise _notlistening(port, error) from None


def _events(trace: Trace) -> int:
    """Return the approximate number of events in a timeline."""
    tables = [table for table in (*EVENT_TABLES, *_DEVICE_TABLES) if trace.has(table)]
    return sum(trace.row_count(table) for table in tables) + sample_count(trace)


def _blocks(container: Container) -> list[bytes]:
    return [block.data for block in container.blocks]


def listening(
    content: bytes, blocks: Sequence[bytes], parts: Assets, port: int, site: Site | None = None
) -> PageServer:
    """Return a server of a page that fetches its blocks, not yet running.

    Args:
        content: The page.
        blocks: Its blocks.
        parts: Its script and style sheets.
        port: Port to listen on; 0 selects a free one.
        site: What else the server answers.

    Raises:
        InputError: The port is in use.
    """
    try:
        return PageServer(content, blocks, policy(parts, "http"), port, site)
    except (OSError, OverflowError) as error:
        raise _notlistening(port, error) from None


def _notlistening(port: int, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(
        f"cannot listen on port {port}: {reason}", hint="omit --port to use a free port"
    )


def _diagnose(server: PageServer, tiled: TiledPage, view: View, parts: Assets, tell: Tell) -> None:
    """Compute the diagnosis, then serve the page with it."""
    # By default a thread may hold the interpreter for 5 ms: too long for answers to wait.
    sys.setswitchinterval(_SHORT_TURN_S)
    try:
        diagnosis, tables = tiled.compute(view)
        container = tiled.container(diagnosis, tables)
        content = "".join(page(diagnosis, container, parts, "http")).encode()
    except (WarplineError, MemoryError) as error:
        reason = str(error) or "out of memory"
        tiled.pending = f"The diagnosis failed: {reason}."
        tell(tiled.pending)
        return
    server.replace(content, _blocks(container))
    tiled.pending = None
    tell("the diagnosis is ready: the page shows it")
