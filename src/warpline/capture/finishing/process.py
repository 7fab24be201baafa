"""Start finishing in a process of its own, and wait for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
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
    with subprocess.Popen(
        [*words, "--progress"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=own_environment(),
        encoding="utf-8",
        errors="replace",
    ) as process:
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
    module: str, words: str, folder: Path, output: Path, finished: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Add rows to the recording of a session, in a process of its own.

    Args:
        module: The module that does it.
        words: Subject and verb of the warning if that fails.
        folder: The session directory.
        output: The recording.
        finished: The counts of finishing.

    Returns:
        The counts, with a warning and one more damaged log if that failed: the session is kept.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, str(folder), str(output)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=own_environment(),
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return {**finished, "is_empty": False}
    said = done.stderr.strip().splitlines()
    why = said[-1] if said else _how_it_ended(done.returncode)
    return {
        **finished,
        "warnings": (*finished.get("warnings", ()), f"{words} not added: {why}"),
        "damaged_logs": finished.get("damaged_logs", 0) + 1,
    }


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
