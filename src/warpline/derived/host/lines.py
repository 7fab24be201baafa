"""The line of the program that a stack stands for, such as ``decode_jpeg (dataset.py:41)``.

It is the innermost frame of the program's own Python code: not of the standard library, an
installed package or the import system. In a stack without such a frame, it is the innermost Python
frame, then the innermost native one with a name, outside of the C and C++ runtime if there is one.

A process that Python forked has the frames of its parent, too, as a worker of a DataLoader has
those of the training loop. They do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.functions import PYTHON, frame_files, functions, stacks
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I8, I32, BoolArray, Integers
from warpline.ops.stacks import with_callers
from warpline.trace import Trace

NO_FRAME = -1
# Addresses, and what profilers write in place of names: [Unknown], [Broken backtraces].
_NO_NAME = lazy_pattern(r"$|\[|0x")
# Directories of installed packages and of the standard library, and code without a file.
_NOT_OF_PROGRAM = lazy_pattern(
    r".*[/\\](?:site-packages|dist-packages)[/\\]|.*[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|<|$"
)
_RUNTIME = lazy_pattern(
    r"(?:.*/)?(?:lib(?:c|pthread|m|dl|rt|stdc\+\+|gcc_s)|ld)[-.0-9].*|(?:.*/)?ld-linux.*|\[.*|$"
)
_PROCESS = lazy_pattern(r".*[/\\]multiprocessing[/\\]process\.py$")
_PYTHON_RANK = 3


class LeafPlaces(NamedTuple):
    """The frame that stands for each stack.

    Attributes:
        frame: Shape (n,), int32, rows of `frame`; NO_FRAME for a stack without named frames.
        is_innermost: Shape (n,), bool, whether it is the program's own Python code and no other
            Python frame is further in: the program was not in a Python library.
    """

    frame: I32
    is_innermost: BoolArray


@derived
def frame_ranks(trace: Trace) -> I8:
    """Return how well each frame stands for its stack, shape (frames,), int8.

    4 for the program's Python code, 3 for any other Python code, 2 for named native code, 1 for
    that of the C and C++ runtime, 0 else.
    """
    known = functions(trace)
    ranks = np.zeros(len(known), np.int8)
    for code, (kind, symbol, module) in enumerate(
        zip(
            known.kind.tolist(),
            trace.strings.texts(known.symbol),
            trace.strings.texts(known.module),
            strict=True,
        )
    ):
        if kind == PYTHON:
            ranks[code] = _PYTHON_RANK + (not _NOT_OF_PROGRAM.match(module))
        elif not _NO_NAME.match(symbol):
            ranks[code] = 1 if _RUNTIME.match(module) else 2
    return ranks[known.of_frame]


def leaf_places(trace: Trace, stack_ids: Integers) -> LeafPlaces:
    """Return the frame that stands for each stack.

    Args:
        trace: The trace.
        stack_ids: Shape (n,), rows of `stack`; negative for no stack.
    """
    known, row = _all_places(trace), np.maximum(np.asarray(stack_ids), -1)
    return LeafPlaces(known.frame[row], known.is_innermost[row])


@derived
def _all_places(trace: Trace) -> LeafPlaces:
    """Return the frame of each row of `stack`; the last entry is that of no stack.

    It is the innermost frame, unless one of the callers has a higher rank.
    """
    tree = stacks(trace)
    rank = frame_ranks(trace)[tree.frame]
    is_python, begins = rank >= _PYTHON_RANK, _begin_process(trace)[tree.frame]
    frame = np.where(rank > 0, tree.frame, np.int32(NO_FRAME))
    inner = rank > _PYTHON_RANK
    for level in with_callers(tree, np.arange(len(tree)))[1:]:
        rows = level[~begins[level]]  # callers of these are the parent's
        rows = rows[rank[tree.parent[rows]] > rank[rows]]
        caller = tree.parent[rows]
        rank[rows], frame[rows] = rank[caller], frame[caller]
        inner[rows] = inner[caller] & ~is_python[rows]
    return LeafPlaces(np.append(frame, np.int32(NO_FRAME)), np.append(inner, False))


@derived
def _begin_process(trace: Trace) -> BoolArray:
    """Return which frames are the first function of a process that Python forked."""
    known = functions(trace)
    names, files = trace.strings.texts(known.symbol), trace.strings.texts(known.module)
    begin = [
        name.rsplit(".", 1)[-1] == "_bootstrap" and bool(_PROCESS.match(file))
        for name, file in zip(names, files, strict=True)
    ]
    return np.array(begin, np.bool_)[known.of_frame]


def place_texts(trace: Trace, frames: Integers) -> list[str]:
    """Return the text of frames: ``function (file.py:41)``, ``function (libc.so.6)``.

    Args:
        trace: The trace.
        frames: Shape (n,), rows of `frame`; negative gives an empty text.
    """
    if not len(frames):
        return []
    chosen = np.maximum(np.asarray(frames).astype(np.int64), 0)
    if not trace.has("frame") or not trace.row_count("frame"):
        return ["" for _ in chosen]
    symbol, line = trace.columns("frame", "symbol_id", "line").values()
    texts = map(
        place_text,
        trace.strings.texts(symbol.values[chosen].tolist()),
        trace.strings.texts(frame_files(trace)[chosen].tolist()),
        line.take(chosen).to_list(),
    )
    return [
        text if frame >= 0 else ""
        for text, frame in zip(texts, np.asarray(frames).tolist(), strict=True)
    ]


def place_text(symbol: str, file: str, line: int | None) -> str:
    """Return the text of a place: its function, and the name of its file without directories."""
    name = file.replace("\\", "/").rsplit("/", 1)[-1]
    where = f"{name}:{line}" if line and name else name
    return f"{symbol} ({where})" if where else symbol


def leaf_lines(trace: Trace, stack_ids: Sequence[int] | Integers) -> list[str]:
    """Return the line that each stack stands for, as text; empty for no stack."""
    return place_texts(trace, leaf_places(trace, np.asarray(stack_ids, np.int64)).frame)
