"""Write what a session keeps of its recording, while the recording goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpline.capture.flags.sessions import SessionSettings, parse_start
from warpline.capture.launcher import kept
from warpline.capture.launcher.steering import status_of
from warpline.capture.session import named, names
from warpline.errors import CaptureError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Dump:
    """A copy of the session's directory, and what is to be written of it.

    Attributes:
        place: The copy, and the recording.
        settings: Those of the session's recording.
    """

    place: names.Place
    settings: SessionSettings


def dump(name: str, output: str | None, *, overwrite: bool, warn: Say) -> Dump:
    """Copy what a session keeps; the recording goes on.

    Args:
        name: The session.
        output: The name of the recording; None for one made of the session's recording's name.
        overwrite: Whether an existing recording may be replaced.
        warn: Prints a warning.

    Raises:
        CaptureError: The session keeps nothing, or its records cannot be copied.
    """
    told = status_of(name)
    held = named.ask(name, {"do": "hold", "wanted": True})
    try:
        settings = parse_start((*told["words"], *held["words"]))
        folder, whole = Path(held["folder"]), Path(held["output"])
        place = kept.reserve(output or kept.name_of(whole), overwrite=overwrite, warn=warn)
        kept.copy(folder, place, settings.cuda_flush_interval)
    finally:
        with contextlib.suppress(CaptureError):  # the session has ended
            named.ask(name, {"do": "hold", "wanted": False})
    kept.settle(place, held["kept_from_ns"], held["now_ns"])
    return Dump(place, settings)
