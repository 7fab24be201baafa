"""The kept seconds or steps of a session that goes on, copied and written as a recording."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warpline.capture.finishing.process import run_finishing
from warpline.capture.launcher.keeper import keep_between
from warpline.capture.session import names
from warpline.capture.session.facts import StoppedBy, read_facts, write_facts
from warpline.capture.session.keeping import copy_session
from warpline.errors import CaptureError

_MORE_S = 0.1  # records that CUPTI returns are decoded meanwhile


def name_of(whole: Path) -> str:
    """Return the name of what is written beside the recording of all of a session."""
    return f"{whole.with_suffix('')}_dump".replace("%", "%%") + "%n"


def reserve(output: str, *, overwrite: bool, warn: Callable[[str], None]) -> names.Place:
    """Choose the name of a recording, and make an empty directory for the copy."""
    return names.reserve(output, os.environ, pid=os.getpid(), overwrite=overwrite, warn=warn)


def copy(folder: Path, place: names.Place, flush_ms: int) -> None:
    """Copy a session's directory once CUPTI has returned its records of the time until now.

    Args:
        folder: The directory.
        place: Where to.
        flush_ms: How often CUPTI's buffers are flushed.

    Raises:
        CaptureError: It cannot be copied.
    """
    time.sleep(flush_ms / 1000 + _MORE_S)
    try:
        copy_session(folder, place.folder)
    except OSError as error:
        shutil.rmtree(place.folder, ignore_errors=True)
        raise CaptureError(
            f"cannot copy what is kept to {place.folder}: {error.strerror or error}",
            hint="free some space, or use -o to write to another directory",
        ) from error


def settle(place: names.Place, from_ns: int, ended_ns: int) -> None:
    """Make a session of its own of a copy: from a time to a time, monotonic ns."""
    folder = place.folder
    kept = keep_between(folder, from_ns, ended_ns, ended_ns)
    stopped = {"stopped_monotonic_ns": ended_ns, "stopped_by": StoppedBy.DUMP}
    facts = {**read_facts(folder), **kept, **stopped, "output": str(place.output.absolute())}
    write_facts(folder, facts)


def write(place: names.Place, progress: Callable[[float], None]) -> Mapping[str, Any]:
    """Write the recording, delete the copy, and return the counts.

    Raises:
        CaptureError: It cannot be written; the copy is kept.
    """
    finished = run_finishing(place.folder, place.output, progress)
    if not finished.get("damaged_logs"):
        shutil.rmtree(place.folder, ignore_errors=True)
    return finished
