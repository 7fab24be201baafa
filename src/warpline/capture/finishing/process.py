"""Start finishing in a process of its own, and wait for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warpline.capture.session.exits import signal_name
from warpline.capture.session.memory import has_memory
from warpline.capture.session.operators import has_operators
from warpline.errors import CaptureError

_MODULE = "warpline.capture.finishing"
# What PyTorch recorded in the programs: whether there is some, the module that adds it, and words.
_ADDED = (
    (has_operators, "warpline.documents.session_operators", "operators were"),
    (has_memory, "warpline.documents.session_memory", "GPU memory was"),
)

Progress = Callable[[float], None]

_starting = threading.Lock()
_running: set[int] = set()


def running() -> frozenset[int]:
    """Return the processes of this one that are finishing sessions, for who watches its children.

    A process that was listed before the call is among them.
    """
    with _starting:
        return frozenset(_running)


def run_finishing(folder: Path, output: Path, progress: Progress) -> Mapping[str, Any]:
    """Finish a session in a separate process and return the counts.

    Args:
        folder: The session directory.
        output: The recording to write; an existing file is overwritten.
        progress: Called with the completed fraction, from 0 to 1.

    Raises:
        CaptureError: The recording could not be written.
    """
    words = [sys.executable, "-P", "-m", _MODULE, str(folder), "--output", str(output)]
    finished: Mapping[str, Any] | None = None
    said: list[str] = []
    with _process([*words, "--progress"], stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            message = _message(line)
            if message is None:
                said.append(line.strip())
            elif "finished" in message:
                finished = message["finished"]
            elif "failed" in message:
                failed = message["failed"]
                raise CaptureError(failed["message"], hint=failed.get("hint"))
            else:
                progress(float(message.get("progress", 0.0)))
    if process.returncode != 0 or finished is None:
        why = next((line for line in reversed(said) if line), _how_it_ended(process.returncode))
        raise CaptureError(
            f"cannot write {output}: {why.removeprefix('error: ')}",
            hint=f"run warpline recover {folder}",
        )
    for is_there, module, what in _ADDED:
        if is_there(folder):
            finished = _add(module, what, folder, output, finished)
    return finished


def _add(
    module: str, subject: str, folder: Path, output: Path, finished: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Add rows to the recording of a session, in a process of its own.

    Args:
        module: The module that does it.
        subject: Subject and verb of the warning if that fails.
        folder: The session directory.
        output: The recording.
        finished: The counts of finishing.

    Returns:
        The counts, with a warning and one more damaged log if that failed: the session is kept.
    """
    words = [sys.executable, "-P", "-m", module, str(folder), str(output)]
    with _process(words, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    if process.returncode == 0:
        return {**finished, "is_empty": False}
    said = errors.strip().splitlines()
    why = said[-1] if said else _how_it_ended(process.returncode)
    return {
        **finished,
        "warnings": (*finished.get("warnings", ()), f"{subject} not added: {why}"),
        "damaged_logs": finished.get("damaged_logs", 0) + 1,
    }


def run_beside(words: Sequence[str]) -> int:
    """Run a command of the user's, and return its exit status; negative: the signal that ended it.

    Its output goes to standard error, and it has no input.

    Raises:
        OSError: It cannot be started.
    """
    with _starting:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=_stderr())
        _running.add(process.pid)
    try:
        with process:
            return process.wait()
    finally:
        with _starting:
            _running.discard(process.pid)


def _stderr() -> int:
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


@contextmanager
def _process(words: Sequence[str], *, stderr: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process of our own, and wait for it."""
    with _starting:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=own_environment(),
            encoding="utf-8",
            errors="replace",
        )
        _running.add(process.pid)
    try:
        with process:
            yield process
    finally:
        with _starting:
            _running.discard(process.pid)


def _how_it_ended(status: int) -> str:
    """Describe the exit of a finishing process that printed nothing."""
    if status >= 0:
        return f"the process that writes it exited with status {status}"
    name = signal_name(-status)
    cause = " (out of memory?)" if -status == signal.SIGKILL else ""
    return f"the process that writes it was killed by {name}{cause}"


def _message(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None if there is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def own_environment() -> dict[str, str]:
    """Return the environment for a Python process of ours: it imports this very package."""
    environment = dict(os.environ)
    own = str(Path(__file__).parents[3])
    paths = [own, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
