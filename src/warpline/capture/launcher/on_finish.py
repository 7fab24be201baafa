"""The command that is run once a recording is written, such as an upload: ``--on-finish``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from warpline.capture.finishing.process import run_beside
from warpline.capture.flags.finish_command import words_of
from warpline.capture.session.exits import signal_name


def run(command: str | None, output: Path, warn: Callable[[str], None]) -> None:
    """Run the command of a recording that is written, and wait for it; failures are warnings.

    No shell is involved. Its output goes to standard error, as standard output has that of the
    program, or tables.

    Args:
        command: From ``--on-finish``; None for nothing.
        output: The recording.
        warn: Prints a warning.
    """
    if command is None or not output.is_file():
        return
    words = words_of(command, output)
    try:
        status = run_beside(words)
    except (OSError, ValueError) as error:  # ValueError: a NUL in a word
        how = f"cannot be run: {getattr(error, 'strerror', None) or error}"
    except KeyboardInterrupt:
        how = "was interrupted"
    else:
        if status == 0:
            return
        is_killed = status < 0
        how = f"was killed by {signal_name(-status)}" if is_killed else f"failed ({status})"
    warn(f"--on-finish: {words[0]} {how}; the recording is {output}")
