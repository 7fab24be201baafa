"""The session of a recording of a program under ``warpline launch``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warpline.capture.flags.sessions import SessionSettings
from warpline.capture.launcher import launch
from warpline.capture.session import names
from warpline.capture.session.control import State
from warpline.capture.session.facts import session_facts
from warpline.capture.session.session import Session, create_session


def make_session(
    settings: SessionSettings, told: Mapping[str, Any], warn: Callable[[str], None]
) -> Session:
    """Make the session of a recording that is about to start.

    Args:
        settings: The settings of the recording.
        told: What its launcher says of the program.
        warn: Prints a warning.

    Raises:
        WarplineError: The recording exists already, or its directory is not writable.
    """
    place = names.reserve(
        settings.output,
        os.environ,
        pid=told["pid"],
        overwrite=settings.force_overwrite,
        warn=warn,
        exports=settings.export,
    )
    folder = place.folder.absolute()
    try:
        return _create(folder, place.output.absolute(), settings, told)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _create(
    folder: Path, output: Path, settings: SessionSettings, told: Mapping[str, Any]
) -> Session:
    facts = session_facts(
        output,
        command=told["command"],
        options=settings.plain(),
        environment=told["environment"],
        collected=launch.collected_by(settings),
    )
    facts["directory"] = told["directory"]
    facts["launcher_pid"] = told["launcher"]
    facts["program"] = {"pid": told["pid"], "exit_status": None, "signal": None}
    return create_session(
        folder,
        launch.config_of(settings, told["cupti"], told["pid"]),
        facts,
        state=State.WAITING if settings.delay else State.RECORDING,
        mode=settings.mode,
        windows_wanted=settings.windows_wanted,
        is_trimmed=settings.kept is not None,
    )
