"""What the steps after finishing share: each adds to a recording what is left in its session.

Run as a module, with the session and the recording, a step is a process of its own, as finishing
is: launchers import the standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from warpline.capture.session.facts import read_facts, time_of
from warpline.errors import CaptureError, WarplineError


def origin_ns(session: Path) -> int | None:
    """Return the monotonic time that is 0 in the recording; None if the session does not say."""
    try:
        return time_of(read_facts(session), "started_monotonic_ns")
    except CaptureError:
        return None


def run(add: Callable[[Path, Path], bool], words: Sequence[str]) -> int:
    """Run a step by its command line, the session and the recording; return the exit status.

    Args:
        add: Adds to a recording what is in a session.
        words: The command line.
    """
    session, recording = map(Path, words)
    try:
        add(recording, session)
    except WarplineError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0
