"""The facts of a session: session.json, written by its creator and read by finishing."""

from __future__ import annotations

import enum
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from warpline import __version__
from warpline.capture.machine.driver import driver_version
from warpline.errors import CaptureError

FACTS_NAME = "session.json"
_FAR_NS = 1 << 61
_READINGS = 5  # of both clocks

Facts = Mapping[str, Any]


class StoppedBy(enum.StrEnum):
    """Why recording stopped while the program was running."""

    INTERRUPT = "interrupt"
    DURATION = "duration"
    CAPTURE_RANGE = "capture range"
    STEPS = "steps"
    LAUNCH_COUNT = "launch count"
    COMMAND = "warpline stop"
    DUMP = "warpline dump"
    SIZE = "size"


def session_facts(
    output: Path,
    *,
    command: Iterable[str],
    options: Facts,
    environment: Mapping[str, str],
    collected: Iterable[str],
    pytorch: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the initial facts of a session.

    Args:
        output: Path of the recording.
        command: The program and its arguments, redacted.
        options: Plain values by option name.
        environment: The environment variables to store, redacted.
        collected: The traced APIs, such as "nvtx".
        pytorch: What Python programs record of PyTorch: words of ``--pytorch``.
    """
    started = start_times()
    driver = driver_version()
    return {
        "version": 1,
        "warpline": __version__,
        "command": list(command),
        "directory": str(Path.cwd()),
        "host": os.uname().nodename,
        **started,
        "options": dict(options),
        "environment": dict(environment),
        "software": {} if driver is None else {"driver": driver},
        "output": str(output),
        "launcher_pid": os.getpid(),
        "notes": [],
        "collected": list(collected),
        "pytorch": list(pytorch),
    }


def start_times() -> dict[str, int]:
    """Return the present time by both clocks, as facts of the start of a recording.

    Operators of PyTorch have UTC, and ranges and GPU work the other clock: of some readings, the
    one counts in which least time passed, as the process may lose its core between two.
    """
    readings = []
    for _ in range(_READINGS):
        before, utc_ns, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, before + (after - before) // 2, utc_ns))
    _, monotonic_ns, utc_ns = min(readings)
    return {"started_utc_ns": utc_ns, "started_monotonic_ns": monotonic_ns}


def write_facts(folder: Path, facts: Facts) -> None:
    """Replace session.json atomically: a reader sees the old or the new version."""
    path = folder / FACTS_NAME
    unfinished = folder / f".{FACTS_NAME}.{os.getpid()}"
    text = json.dumps(facts, indent=1, ensure_ascii=True)  # lone surrogates stay readable
    unfinished.write_text(text + "\n", encoding="ascii")
    unfinished.replace(path)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the content of session.json.

    Raises:
        CaptureError: It is missing or damaged.
    """
    path = folder / FACTS_NAME
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CaptureError(f"{path} is damaged: {error}") from error
    if not isinstance(facts, dict):
        raise CaptureError(f"{path} is damaged: not a JSON object")
    return facts


def time_of(facts: Facts, key: str) -> int | None:
    """Return a time in session.json, or None if it is missing or invalid."""
    value = facts.get(key)
    return value if type(value) is int and 0 < value < _FAR_NS else None


def texts_of(value: object) -> list[str]:
    """Return the strings of a list in session.json; empty if it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
