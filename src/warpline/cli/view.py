"""``warpline view``: the report of a recording in a local browser."""

from __future__ import annotations

import contextlib
import html
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import installation
from warpline.cli import copying, talk, top
from warpline.cli.arguments import (
    add_filters,
    add_recordings,
    add_steps,
    filters_in_words,
    open_trace,
    warn_if_all_excluded,
)
from warpline.cli.shown_page import add_page, measured_ceilings
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import UsageError

if TYPE_CHECKING:
    import shlex
    import tempfile
    import webbrowser

    from warpline import api
    from warpline.live import finding, site, watch
    from warpline.remote import ssh, tunnel
    from warpline.viewer.server import PageServer
else:
    shlex = lazy("shlex")
    tempfile = lazy("tempfile")
    webbrowser = lazy("webbrowser")
    api = lazy("warpline.api")
    ssh = lazy("warpline.remote.ssh")
    tunnel = lazy("warpline.remote.tunnel")
    finding = lazy("warpline.live.finding")
    site = lazy("warpline.live.site")
    watch = lazy("warpline.live.watch")

NAME = "view"
HELP = "open the timeline, or profiled kernels, in a local browser"
OPENS_PLACES = True

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
        help="only print the URL",
    )
    parser.add_argument(
        "--host-python",
        metavar="PATH",
        help="of HOST:PATH: the Python there that has numpy, polars and rich",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the URL and errors")
    add_page(parser)
    add_steps(parser)
    add_filters(parser)


def run(args: Namespace) -> int:
    """Serve the report until interrupted."""
    if not 0 <= args.port <= _PORTS:
        raise UsageError(f"--port {args.port}: must be 0 to {_PORTS}")
    if args.live:
        installation.require_linux()
        return _follow(args)
    place = copying.place_named(args.recordings[0]) if len(args.recordings) == 1 else None
    if place is None or args.ceilings:
        return _serve(args)
    with ssh.Connection(place.host, args.host_python) as connection:
        try:
            with tunnel.opened(place, connection, args.port, _words(args)) as there:
                return _show(args, there.url, there.wait, f"to this machine and {place.host} only")
        except tunnel.NoReaderError as error:
            talk.note(f"{error.message}: the recording is copied here, not shown through a tunnel")
            args.recordings = [copying.copy(place, connection, is_quiet=args.quiet)]
    return _serve(args)


def _words(args: Namespace) -> list[str]:
    """Return the options that say what is shown, as words."""
    words = shlex.split(filters_in_words(args))
    words += [] if args.steps is None else [f"--steps-from={args.steps}"]
    return words + ([] if args.page is None else ["--page", args.page])


def _serve(args: Namespace) -> int:
    """Serve recordings, those of other machines as copies."""
    copying.copy_named(args)
    trace = open_trace(args)
    warn_if_all_excluded(trace, args)
    measured = measured_ceilings(trace, args)
    tell = _nothing if args.quiet else talk.note
    server = api.serve(
        trace, steps=args.steps, port=args.port, tell=tell, page=args.page, measured=measured
    )
    return _show_served(server, args)


def _follow(args: Namespace) -> int:
    """Serve the page of a recording in progress until interrupted."""
    if len(args.recordings) > 1:
        raise UsageError("--live shows one recording", hint="name one session, file or process")
    found = finding.find(*args.recordings or (None,))
    with contextlib.closing(watch.Watcher(found, args.window, share=site.SHARE)) as watched:
        return _show_served(site.live_server(watched, found.name, args.port), args)


def _show_served(server: PageServer, args: Namespace) -> int:
    with contextlib.closing(server.socket):
        return _show(args, server.url, server.serve_forever, "to this machine only")


def _show(args: Namespace, url: str, wait: Callable[[], None], to_whom: str) -> int:
    """Open a URL, and serve until interrupted."""
    with _opened(url, is_wanted=not args.no_browser):
        write_text(url)
        sys.stdout.flush()
        if not args.quiet:
            talk.note(f"serving {to_whom}; press Ctrl+C to stop")
        with contextlib.suppress(KeyboardInterrupt):
            wait()
    return 0


def _nothing(_: str) -> None:
    """Say nothing, with --quiet."""


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
