"""``warpline status``: what a session is doing."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.cli import running, session_option
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.capture.launcher import steering
else:
    steering = lazy("warpline.capture.launcher.steering")

NAME = "status"
HELP = "show what a session is doing"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    session_option.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Print the state of the session."""
    told = steering.status_of(session_option.chosen(args))
    if args.json:
        shown = ("name", "pid", "processes", "command", "recordings", "recording", "unwritten")
        return write_text(json.dumps({key: told[key] for key in shown}, indent=1))
    return write_text("\n".join(lines_of(told)))


def lines_of(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about a session.

    Args:
        told: What its launcher says.
    """
    yield f"session {told['name']}: {shlex.join(told['command'])}"
    count = plural(told["processes"], "process", "processes")
    yield f"  process {told['pid']}, {count}"
    recording = told["recording"]
    if recording is None:
        yield f"  not recording; {plural(told['recordings'], 'recording')} so far"
    else:
        parts = (recording["doing"], recording["events"], recording["size"], recording["dropped"])
        amount = ", ".join(filter(None, parts))
        output = running.short(Path(recording["output"]))
        yield f"  {output}, for {recording['seconds']:.1f} s: {amount}"
    for each in told["unwritten"]:
        yield f"  stopped, not written: {running.short(Path(each['output']))} (warpline finalize)"
