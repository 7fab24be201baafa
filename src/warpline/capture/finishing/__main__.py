"""The process ``python -m warpline.capture.finishing FOLDER --output PATH``: it finishes a session.

It prints one JSON object per line to stdout:

    {"progress": 0.42}
    {"finished": {"output": "run.warpline", "ranges": 12, ...}}     or
    {"failed": {"message": "...", "hint": "..."}}, and the exit status is 1

Nothing is deleted without ``--remove``. `process` is the other end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpline.capture.finishing import cost
from warpline.capture.finishing.draft import Progress
from warpline.capture.finishing.finish import finish
from warpline.capture.finishing.raw_session import log_files
from warpline.errors import CaptureError, WarplineError

_PROGRESS_S = 0.1


def main(words: Sequence[str] | None = None) -> int:
    """Finish the given session, print the result to stdout and return the exit status."""
    parser = ArgumentParser(prog="python -m warpline.capture.finishing")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--progress", action="store_true", help="print the progress")
    parser.add_argument(
        "--remove", action="store_true", help="delete the directory after a complete conversion"
    )
    args = parser.parse_args(words)
    try:
        progress = _teller() if args.progress else None
        costs = cost.measure(args.folder) if _was_here(args.folder) else None
        found = finish(args.folder, args.output, progress=progress, costs=costs)
    except WarplineError as error:
        _say({"failed": {"message": error.message, "hint": error.hint}})
        return error.exit_code
    if args.remove and found.is_whole:
        shutil.rmtree(args.folder, ignore_errors=True)
    _say({"finished": asdict(found)})
    return 0


def _was_here(folder: Path) -> bool:
    """Return whether the session has logs, all of them from this machine."""
    try:
        logs = log_files(folder)
    except CaptureError:
        return False
    return bool(logs) and all(log.host == os.uname().nodename for log in logs)


def _teller() -> Progress:
    """Return a function that prints the progress, with a limited rate."""
    said_at = -_PROGRESS_S

    def tell_progress(part: float) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= _PROGRESS_S:
            said_at = now
            _say({"progress": round(part, 3)})

    return tell_progress


def _say(fact: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
