"""``warpline mcp``: serve the recordings of folders to programs that speak MCP."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    from warpline.mcp import server
else:
    server = lazy("warpline.mcp.server")

NAME = "mcp"
HELP = "answer questions of agents about recordings in folders (MCP server)"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} FOLDER..."
    parser.description = (
        "Answer the questions of agents about recordings in folders, by the Model Context Protocol"
        " on standard input and output. Reads nothing outside of the folders, writes nothing, and"
        " uses no network. Requires pip install 'warpline[mcp]'."
    )
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="directory whose recordings may be read"
    )
    parser.set_defaults(quiet=True)  # standard error is the client's log, not a terminal


def run(args: Namespace) -> int:
    """Serve until standard input ends."""
    if not args.folders:
        raise UsageError("missing FOLDER argument", hint="warpline mcp .")
    server.serve(args.folders)
    return 0
