"""Write what a session keeps of its recording, while the recording goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.finishing.process import run_finishing
from warpline.capture.flags.sessions import SessionSettings, parse_start
from warpline.capture.launcher.keeper import keep_last
from warpline.capture.launcher.steering import status_of
from warpline.capture.session import named, names
from warpline.capture.session.facts import StoppedBy, read_facts, write_facts
from warpline.capture.session.keeping import copy_session
from warpline.errors import CaptureError

_MORE_S = 0.1  # records that CUPTI returns are decoded meanwhile

Say = Callable[[str], None]


@dataclass(frozen=True)
class Dump:
    """A copy of the session's directory, and what is to be written of it.

    Attributes:
        folder: The copy.
        output: The recording.
        settings: Those of the session's recording.
    """

    folder: Path
    output: Path
    settings: SessionSettings


def dump(
    name: str, output: str | None, *, overwrite: bool, warn: Say, now: Callable[[], float] = time.monotonic
) -> Dump:
    """Copy what a session keeps; the recording goes on.

    Args:
        name: The session.
        output: The name of the recording; None for one made of the session's recording's name.
        overwrite: Whether an existing recording may be replaced.
        warn: Prints a warning.
        now: The monotonic clock, in seconds.

    Raises:
        CaptureError: The session keeps nothing, or its records cannot be copied.
    """
    told = status_of(name)
    held = named.ask(name, {"do": "hold", "wanted": True})
    settings = parse_start((*told["words"], *held["words"]))
    ended_ns = round(now() * 1e9)
    try:
        # CUPTI has records of the last moments until then.
        time.sleep(settings.cuda_flush_interval / 1000 + _MORE_S)
        place = names.reserve(
            output or f"{Path(held['output']).with_suffix('')}_dump".replace('%', '%%') + "%n",
            os.environ,
            pid=told["pid"],
            overwrite=overwrite,
            warn=warn,
        )
        try:
            copy_session(Path(held["folder"]), place.folder)
        except OSError as error:
            shutil.rmtree(place.folder, ignore_errors=True)
            raise CaptureError(
                f"cannot copy what is kept to {place.folder}: {error.strerror or error}",
                hint="free some space, or use -o to write to another directory",
            ) from error
    finally:
        with contextlib.suppress(CaptureError):  # the session has ended
            named.ask(name, {"do": "hold", "wanted": False})
    _settle(place.folder, place.output.absolute(), settings, ended_ns)
    return Dump(place.folder, place.output, settings)


def _settle(folder: Path, output: Path, settings: SessionSettings, ended_ns: int) -> None:
    keep = settings.kept
    assert keep is not None  # or the session would not have been held
    kept = keep_last(folder, keep, ended_ns)
    stopped = {"stopped_monotonic_ns": ended_ns, "stopped_by": StoppedBy.DUMP}
    facts = {**read_facts(folder), **kept, **stopped, "output": str(output)}
    write_facts(folder, {**facts, "ended_monotonic_ns": time.monotonic_ns()})


def write(found: Dump, progress: Callable[[float], None]) -> Mapping[str, Any]:
    """Write the recording, delete the copy, and return the counts.

    Raises:
        CaptureError: It cannot be written; the copy is kept.
    """
    finished = run_finishing(found.folder, found.output, progress)
    if not finished.get("damaged_logs"):
        shutil.rmtree(found.folder, ignore_errors=True)
    return finished
