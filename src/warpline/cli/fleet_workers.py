"""What the parts of ``warpline fleet`` share: options about workers, and where answers go."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from warpline.cli.arguments import STDOUT
from warpline.cli.startup import lazy
from warpline.errors import WarplineError
from warpline.files import complete_file, is_special

if TYPE_CHECKING:
    from warpline import render
else:
    render = lazy("warpline.render")


def add_workers(parser: ArgumentParser) -> _ArgumentGroup:
    """Declare who reads recordings."""
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that read recordings (default: one per CPU core; 1 for up to 8"
        " recordings). 1 needs no extra package, more need warpline[cluster]",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="read with the workers of a running dask cluster instead, such as"
        " tcp://10.0.0.5:8786; they must see the recordings under the same paths",
    )
    return group


def write_answer(write: Callable[[TextIO, render.Options], None], output: str) -> None:
    """Write an answer to a file, which appears when it is complete, or to standard output.

    Raises:
        WarplineError: Standard output is closed, or the file cannot be written.
    """
    if output != STDOUT and not is_special(Path(output)):
        with (
            complete_file(Path(output)) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as out,
        ):
            write(out, render.Options())
        return
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="use -o FILE")
    write(sys.stdout, render.detect_options(sys.stdout, os.environ))
    sys.stdout.flush()
