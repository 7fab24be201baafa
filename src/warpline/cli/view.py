"""``warpline view``: the report of a recording in a browser on this machine."""

from __future__ import annotations

import contextlib
import html
import os
import sys
import tempfile
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from warpline.cli import talk
from warpline.cli.arguments import add_filters, add_recordings, add_steps, open_trace
from warpline.cli.output import write_text
from warpline.cli.startup import load_api
from warpline.errors import UsageError

NAME = "view"
HELP = "open the timeline in a browser on this machine"

_PORTS = 65535


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="where to listen (default: any free port)"
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="only print the address, to be opened by hand: on another machine through"
        " ssh -L PORT:127.0.0.1:PORT",
    )
    add_steps(parser)
    add_filters(parser)


def run(args: Namespace) -> int:
    """Serve the page until interrupted."""
    api = load_api()
    if not 0 <= args.port <= _PORTS:
        raise UsageError(f"--port {args.port}: a port is a number up to {_PORTS}")
    server = api.serve(open_trace(args), steps=args.steps, port=args.port, tell=talk.note)
    with contextlib.closing(server.socket), _opened(server.url, is_wanted=not args.no_browser):
        write_text(server.url)
        sys.stdout.flush()
        talk.note("the page is served to this machine only, until Ctrl+C")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


@contextlib.contextmanager
def _opened(url: str, *, is_wanted: bool) -> Iterator[None]:
    """Open the page in a browser.

    Everyone on this machine can read the words that a program was started with. So the browser is
    given a file that only this user can read, which leads to the address with its secret.
    """
    if not is_wanted:
        yield
        return
    handle, name = tempfile.mkstemp(prefix="warpline-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(url)}">')
        if not webbrowser.open(Path(name).as_uri()):
            talk.hint("no browser was found: open the address by hand")
        yield
    finally:
        Path(name).unlink(missing_ok=True)
