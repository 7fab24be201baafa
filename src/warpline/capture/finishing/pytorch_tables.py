"""Tables of what `warpline.injected` wrote to a session: a file per process and subject.

The files are PID-NAME.jsonl, lines of JSON. Programs write them, so nothing of them is trusted.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpline.capture.finishing.draft import Made, Packed
from warpline.capture.finishing.processes import Processes
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.source_files import read_file
from warpline.capture.finishing.told import Told
from warpline.capture.session.facts import Facts, texts_of
from warpline.capture.session.pytorch import FOLDER

_LARGEST_FILE = 1 << 28
_MOST_NOTES = 20
_MOST_PARAMETERS = 1 << 60
_NEVER_RAN = (
    "--pytorch recorded nothing: no Python that reads PYTHONPATH was started (python -I, -E and"
    " frozen programs do not)"
)
_NO_TORCH = "--pytorch recorded nothing: no recorded Python program imported torch"


def make_pytorch(folder: Path, session: RawSession, facts: Facts, told: Told) -> dict[str, Made]:
    """Return the tables of a sealed session that come from PyTorch, if these were asked for.

    Args:
        folder: The session directory.
        session: The decoded logs.
        facts: The facts of the session.
        told: Takes the notes of processes, and why nothing was recorded.
    """
    if not texts_of(facts.get("pytorch")):
        return {}
    told.warnings += _warnings(folder / FOLDER)
    return {"module": _modules(folder / FOLDER, session)}


def _warnings(folder: Path) -> list[str]:
    ran = [line for _, line in lines(folder, "process") if isinstance(line, dict)]
    if not ran:
        return [_NEVER_RAN]
    if not any("torch" in line for line in ran):
        return [_NO_TORCH]
    notes = dict.fromkeys(line for _, line in lines(folder, "notes") if isinstance(line, str))
    return list(notes)[:_MOST_NOTES]


def _modules(folder: Path, session: RawSession) -> Made:
    """Return the table `module`; a process has a module once for each path."""
    processes = Processes(session)
    found: dict[tuple[int, int], tuple[int, int | None, int | None, bool | None]] = {}
    for pid, line in lines(folder, "modules"):
        if not isinstance(line, list) or len(line) != 5:
            continue
        path, kind, *numbers, is_training = line
        process = processes.first(pid)
        if process is None or not (isinstance(path, str) and isinstance(kind, str)):
            continue
        count, size = (_number(value) for value in numbers)
        is_training = is_training if isinstance(is_training, bool) else None
        key = process, session.intern(path)
        found.setdefault(key, (session.intern(kind), count, size, is_training))
    rows = [(*key, *row) for key, row in sorted(found.items(), key=lambda item: item[0])]
    process_ids, names, kinds, counts, sizes, training = (
        zip(*rows, strict=True) if rows else ((),) * 6
    )
    return Made(
        len(rows),
        {
            "process_id": _packed("i", process_ids),
            "name_id": _packed("i", names),
            "class_name_id": _packed("i", kinds),
            "parameters": _packed("q", counts),
            "parameter_bytes": _packed("q", sizes),
            "is_training": _packed("?", training),
        },
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_PARAMETERS else None


def _packed(kind: str, values: Sequence[Any]) -> Packed:
    """Return values with their mask, if there are some without a value: None."""
    valid = bytes(value is not None for value in values) if None in values else None
    return struct.pack(f"={len(values)}{kind}", *(value or 0 for value in values)), valid


def lines(folder: Path, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the lines of all processes' files of a name, with the pid; leave out damaged ones."""
    pattern = re.compile(rf"(\d{{1,9}})-{name}\.jsonl")
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return
    for file in files:
        match = pattern.fullmatch(file.name)
        if match is None:
            continue
        for line in (read_file(file, _LARGEST_FILE) or b"").splitlines():
            try:
                yield int(match[1]), json.loads(line)
            except (ValueError, RecursionError):  # cut at the end of a full disk
                continue
