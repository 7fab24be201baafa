"""Tables of what `warpline.injected` wrote to a session: a file per process and subject.

The files are PID-NAME.jsonl, lines of JSON. Programs write them, so nothing of them is trusted.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from warpline.capture.finishing.compiled_code import compiled_kernels
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
    return {
        "module": _modules(folder / FOLDER, session),
        "compiled_kernel": _compiled(folder / FOLDER, session),
    }


def _warnings(folder: Path) -> list[str]:
    ran = [line for _, line in lines(folder, "process") if isinstance(line, dict)]
    if not ran:
        return [_NEVER_RAN]
    notes = dict.fromkeys(line for _, line in lines(folder, "notes") if isinstance(line, str))
    if not notes and not any("torch" in line for line in ran):
        return [_NO_TORCH]
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


def _compiled(folder: Path, session: RawSession) -> Made:
    """Return the table `compiled_kernel`."""
    processes = Processes(session)
    written: dict[int, list[Any]] = {}
    for pid, line in lines(folder, "compiled"):
        written.setdefault(pid, []).append(line)
    rows = [
        (process, session.intern(kernel.graph), kernel)
        for pid in sorted(written)
        if (process := processes.first(pid)) is not None
        for kernel in compiled_kernels(written[pid])
    ]
    rows.sort(key=lambda row: (row[0], row[1], row[2].position))
    kernels = [kernel for *_, kernel in rows]

    def texts(values: Iterable[str | None]) -> Packed:
        return _packed("i", [None if text is None else session.intern(text) for text in values])

    return Made(
        len(rows),
        {
            "process_id": _packed("i", [process for process, *_ in rows]),
            "graph_id": _packed("i", [graph for _, graph, _ in rows]),
            "position": _packed("q", [kernel.position for kernel in kernels]),
            "kernel_id": texts(kernel.kernel for kernel in kernels),
            "kind": _packed("i", [kernel.kind for kernel in kernels]),
            "nodes_id": texts(json.dumps(kernel.nodes) for kernel in kernels),
            "operators_id": texts(json.dumps(kernel.operators) for kernel in kernels),
            "module_id": texts(kernel.module for kernel in kernels),
            "class_name_id": texts(kernel.class_name for kernel in kernels),
            "file_id": texts(kernel.file for kernel in kernels),
            "line": _packed("q", [kernel.line for kernel in kernels]),
            "is_backward": _packed("?", [kernel.is_backward for kernel in kernels]),
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
