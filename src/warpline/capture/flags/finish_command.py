"""The command line of ``--on-finish``."""

from __future__ import annotations

import shlex
from pathlib import Path

from warpline.errors import UsageError

_HINT = "use --on-finish 'rsync {} storage:runs/'"
PLACE = "{}"  # of the recording in the command


def words_of(command: str, output: Path) -> list[str]:
    """Return the words of a command: the recording in the place of ``{}``, or at the end.

    Raises:
        UsageError: Quotes are not balanced, or there is no word.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--on-finish {command}: {error}", hint=_HINT) from None
    if not words:
        raise UsageError("--on-finish requires a command", hint=_HINT)
    name = str(output.absolute())
    if any(PLACE in word for word in words):
        return [word.replace(PLACE, name) for word in words]
    return [*words, name]
