"""What `warpline.injected` writes to a session, and the environment variables that start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = "pytorch"  # in the session's directory: files PID-NAME of each process

ASKED_VARIABLE = "WARPLINE_PYTORCH"
_PATH_VARIABLE = "PYTHONPATH"


def startup_folder() -> Path:
    """Return the directory with the `sitecustomize` that Python runs when it starts."""
    for root in sys.modules["warpline"].__path__:
        folder = Path(root).absolute() / "injected" / "startup"
        if folder.is_dir():
            return folder
    raise FileNotFoundError("warpline/injected/startup")


def python_variables(asked: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make Python programs record what is asked for.

    Args:
        asked: Words of ``--pytorch``; nothing is changed without any.
        environment: The environment that they are added to.
    """
    if not asked:
        return {}
    first, before = str(startup_folder()), environment.get(_PATH_VARIABLE, "")
    if before.split(os.pathsep)[0] != first:
        before = f"{first}{os.pathsep}{before}" if before else first
    return {ASKED_VARIABLE: ",".join(asked), _PATH_VARIABLE: before}
