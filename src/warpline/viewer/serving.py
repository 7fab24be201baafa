"""The page on a local server: with all its events, or with tiles where they are too many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from warpline.errors import InputError, WarplineError
from warpline.trace import Trace
from warpline.units import format_count
from warpline.viewer.attributes import EVENT_TABLES
from warpline.viewer.container import Container
from warpline.viewer.pack import pack
from warpline.viewer.page import Assets, assets, page, policy
from warpline.viewer.server import PageServer, Site
from warpline.viewer.tiled import TiledPage, View

TILE_FROM = 4_000_000
_SHORT_TURN_S = 0.0005
_DEVICE_TABLES = EVENT_TABLES[:3]  # busy time is shown once more, as states

Tell = Callable[[str], None]


def page_server(
    trace: Trace,
    view: View,
    *,
    steps: str | None = None,
    port: int = 0,
    tile_from: int = TILE_FROM,
    tell: Tell = lambda _: None,
) -> PageServer:
    """Return a server of the page, which does not run yet.

    A recording with very many events is shown by tiles, at once; its diagnosis is computed while
    the server runs.

    Args:
        trace: What to show.
        view: Computes the diagnosis and the tables to show beside it.
        steps: What the ranges that are steps are called; None finds them.
        port: Where to listen; 0 takes a free one.
        tile_from: How many events are shown by tiles.
        tell: Takes a sentence about what goes on.

    Raises:
        InputError: The port is taken, there is no room for the events of a large recording, or
            the viewer's script is not installed.
    """
    parts = assets()
    count = _events(trace)
    if count < tile_from:
        diagnosis, tables = view()
        container = pack(trace, diagnosis, tables, steps=steps)
        content = "".join(page(diagnosis, container, parts, "http")).encode()
        return _listening(content, _blocks(container), parts, port)
    tell(f"laying out about {format_count(count)} events, which takes a while")
    tiled = TiledPage(trace, steps)
    container = tiled.container(None)
    content = "".join(page(None, container, parts, "http")).encode()
    server = _listening(content, _blocks(container), parts, port, tiled)
    server.meanwhile = lambda: _diagnose(server, tiled, view, parts, tell)
    return server


def _events(trace: Trace) -> int:
    """Return about how many events a timeline shows."""
    tables = [table for table in (*EVENT_TABLES, *_DEVICE_TABLES) if trace.has(table)]
    return sum(trace.row_count(table) for table in tables)


def _blocks(container: Container) -> list[bytes]:
    return [block.data for block in container.blocks]


def _listening(
    content: bytes, blocks: Sequence[bytes], parts: Assets, port: int, site: Site | None = None
) -> PageServer:
    try:
        return PageServer(content, blocks, policy(parts, "http"), port, site)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "without --port a free one is taken"
        raise InputError(f"port {port} cannot be used: {reason}", hint=hint) from None


def _diagnose(server: PageServer, tiled: TiledPage, view: View, parts: Assets, tell: Tell) -> None:
    """Compute the diagnosis, and give the page with it from then on."""
    # Answers must not wait for the 5 ms that a thread may otherwise keep the interpreter.
    sys.setswitchinterval(_SHORT_TURN_S)
    try:
        diagnosis, tables = tiled.compute(view)
        container = tiled.container(diagnosis, tables)
        content = "".join(page(diagnosis, container, parts, "http")).encode()
    except (WarplineError, MemoryError) as error:
        reason = str(error) or "out of memory"
        tiled.pending = f"The diagnosis could not be computed: {reason}."
        tell(tiled.pending)
        return
    server.replace(content, _blocks(container))
    tiled.pending = None
    tell("the diagnosis is ready: reload the page")
