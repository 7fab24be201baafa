"""The operators that recorded Python programs have left in a session, as rows of its recording.

Run as a module, with the session and the recording, it is a process of its own, as finishing is:
launchers import the standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warpline import plugins
from warpline.capture.session.facts import read_facts, time_of
from warpline.capture.session.operators import UNWRITTEN, operator_files
from warpline.errors import CaptureError, InputError, WarplineError
from warpline.trace import Trace
from warpline.trace.framework_records import with_framework_records
from warpline.trace.reading import read_all
from warpline.trace.recording import write_recording


def add(recording: Path, session: Path) -> bool:
    """Add the operators of a session to its recording, which is replaced.

    Args:
        recording: The recording.
        session: The session's directory.

    Returns:
        Whether there were any, or any are missing.

    Raises:
        InputError: The recording cannot be read or written.
    """
    files = operator_files(session)
    if not files:
        return False
    plugins.load("readers")
    traces, warnings = [], []
    for path in files:
        pid = path.name.partition("-")[0]
        if path.name.endswith(UNWRITTEN):
            warnings.append(f"process {pid} ended before it wrote its last operators")
            continue
        try:
            traces.append(Trace(read_all([path])[0]))
        except InputError as error:
            warnings.append(f"operators of process {pid} cannot be read: {error.message}")
    merged = with_framework_records(
        Trace(read_all([recording])[0]),
        traces,
        monotonic_origin_ns=_origin_ns(session),
        warnings=warnings,
    )
    write_recording(merged, recording)
    return True


def _origin_ns(session: Path) -> int | None:
    """Return the monotonic time that is 0 in the recording; None if the session does not say."""
    try:
        return time_of(read_facts(session), "started_monotonic_ns")
    except CaptureError:
        return None


def main(words: Sequence[str]) -> int:
    """Add the operators of a session to its recording; return the exit status."""
    session, recording = words
    try:
        add(Path(recording), Path(session))
    except WarplineError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
