"""The operators that recorded Python programs have left in a session, as rows of its recording.

It is a step of its own, see `session_step`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warpline import plugins
from warpline.capture.session.operators import UNWRITTEN, has_operators, operator_files
from warpline.documents.session_step import origin_ns, run
from warpline.errors import InputError
from warpline.trace import Trace
from warpline.trace.annotated_operators import with_annotated_operators
from warpline.trace.framework_records import with_framework_records
from warpline.trace.reading import read_all
from warpline.trace.recording import write_recording


def add(recording: Path, session: Path) -> bool:
    """Add the operators of a session to its recording, which is replaced.

    Args:
        recording: The recording.
        session: The session's directory.

    Returns:
        Whether there were any, or any were asked for.

    Raises:
        InputError: The recording cannot be read or written.
    """
    if not has_operators(session):
        return False
    plugins.load("readers")
    traces, warnings = _read(operator_files(session))
    ours = Trace(read_all([recording])[0])
    merged = with_annotated_operators(
        with_framework_records(
            ours, traces, monotonic_origin_ns=origin_ns(session), warnings=warnings
        ),
        keeps_backward=True,
    )
    write_recording(merged, recording)
    return True


def _read(files: Sequence[Path]) -> tuple[list[Trace], list[str]]:
    """Return torch's records in files, and warnings about what is missing."""
    traces, warnings = [], []
    for path in files:
        pid = path.name.partition("-")[0]
        if path.name.endswith(UNWRITTEN):
            warnings.append(f"process {pid} ended before it wrote torch's records of operators")
            continue
        try:
            traces.append(Trace(read_all([path])[0]))
        except InputError as error:
            warnings.append(f"torch's records of process {pid} cannot be read: {error.message}")
    return traces, warnings


if __name__ == "__main__":
    sys.exit(run(add, sys.argv[1:]))
