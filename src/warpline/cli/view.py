"""``warpline view``: the report of a recording in a local browser."""

from __future__ import annotations

import contextlib
import html
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import talk, top
from warpline.cli.arguments import (
    add_filters,
    add_recordings,
    add_steps,
    open_trace,
    warn_if_all_excluded,
)
from warpline.cli.shown_page import add_page, measured_ceilings
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    import tempfile
    import webbrowser

    from warpline import api
    from warpline.live import finding, site, watch
    from warpline.viewer.server import PageServer
else:
    tempfile = lazy("tempfile")
    webbrowser = lazy("webbrowser")
    api = lazy("warpline.api")
    finding = lazy("warpline.live.finding")
    site = lazy("warpline.live.site")
    watch = lazy("warpline.live.watch")

NAME = "view"
HELP = "open the timeline, or profiled kernels, in a local browser"

_PORTS = 65535


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    parser.usage = (
        f"{parser.prog} RECORDING... [OPTIONS]\n       {parser.prog} --live [SESSION] [OPTIONS]"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="show a recording in progress: of a session, by the name of its file, or of a process"
        " (default: the only one)",
    )
    top.add_window(parser)
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="port to listen on (default: any free port)",
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="only print the URL; to open it from another machine, forward the port with"
        " ssh -L PORT:127.0.0.1:PORT",
    )
    add_page(parser)
    add_steps(parser)
    add_filters(parser)


def run(args: Namespace) -> int:
    """Serve the report until interrupted."""
    if not 0 <= args.port <= _PORTS:
        raise UsageError(f"--port {args.port}: must be 0 to {_PORTS}")
    if args.live:
        return _follow(args)
    trace = open_trace(args)
    warn_if_all_excluded(trace, args)
    measured = measured_ceilings(trace, args)
    server = api.serve(
        trace, steps=args.steps, port=args.port, tell=talk.note, page=args.page, measured=measured
    )
    _serve(server, args)
    return 0


def _follow(args: Namespace) -> int:
    """Serve the page of a recording in progress until interrupted."""
    if len(args.recordings) > 1:
        raise UsageError("--live shows one recording", hint="name one session, file or process")
    found = finding.find(*args.recordings or (None,))
    with contextlib.closing(watch.Watcher(found, args.window, share=site.SHARE)) as watched:
        _serve(site.live_server(watched, found.name, args.port), args)
    return 0


def _serve(server: PageServer, args: Namespace) -> None:
    with contextlib.closing(server.socket), _opened(server.url, is_wanted=not args.no_browser):
        write_text(server.url)
        sys.stdout.flush()
        talk.note("serving to this machine only; press Ctrl+C to stop")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


@contextlib.contextmanager
def _opened(url: str, *, is_wanted: bool) -> Iterator[None]:
    """Open the URL in a browser.

    Every user of the machine can read the arguments of a process. So the browser gets a file that
    only this user can read, which redirects to the URL and its secret.
    """
    if not is_wanted:
        yield
        return
    handle, name = tempfile.mkstemp(prefix="warpline-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(url)}">')
        if not webbrowser.open(Path(name).as_uri()):
            talk.hint("no browser found: open the URL yourself")
        yield
    finally:
        Path(name).unlink(missing_ok=True)
