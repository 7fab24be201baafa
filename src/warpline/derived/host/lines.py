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
from warpline.ops.arrays import I8, I32, I64, BoolArray, Integers
from warpline.ops.group import distinct_values
from warpline.ops.stacks import ancestors
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
_STACKS_PER_BLOCK = 2**16


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
    stack = np.asarray(stack_ids)
    used = distinct_values(stack)
    used = used[used >= 0]
    frame = np.full(len(used) + 1, NO_FRAME, np.int32)  # the last is that of no stack
    inner = np.zeros(len(used) + 1, np.bool_)
    for begin in range(0, len(used), _STACKS_PER_BLOCK):
        block = slice(begin, min(begin + _STACKS_PER_BLOCK, len(used)))
        frame[block], inner[block] = _places(trace, used[block])
    place = np.full(len(stacks(trace)) + 1, len(used), np.int32)  # the last is that of no stack
    place[used] = np.arange(len(used))
    of_row = place[np.maximum(stack, -1)]
    return LeafPlaces(frame[of_row], inner[of_row])


def _places(trace: Trace, used: Integers) -> tuple[I32, BoolArray]:
    """Return the frames of distinct stacks, and whether each is the innermost Python frame."""
    tree = stacks(trace)
    place, row = ancestors(tree, used)
    frames = tree.frame[row]
    rank = frame_ranks(trace)[frames].astype(np.int64)
    rank[_is_of_parent(trace, place, frames)] = 0
    # Of the frames of the highest rank, the innermost: rows are innermost first.
    order = np.arange(len(rank))
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    score = rank * (len(rank) + 1) + (len(rank) - order)
    best = np.maximum.reduceat(score, first)
    chosen = len(rank) - best % (len(rank) + 1)
    frame = np.where(rank[chosen] > 0, frames[chosen], NO_FRAME).astype(np.int32)
    python_at = np.where(rank >= _PYTHON_RANK, order, len(rank))
    innermost_python = np.minimum.reduceat(python_at, first)
    return frame, (chosen == innermost_python) & (rank[chosen] > _PYTHON_RANK)


def _is_of_parent(trace: Trace, place: I64, frames: Integers) -> BoolArray:
    """Return which frames a process has from its parent, of stacks innermost first."""
    is_of_parent = np.zeros(len(frames), np.bool_)
    begins = np.flatnonzero(_begin_process(trace)[frames])
    stack, first = np.unique(place[begins], return_index=True)
    behind = np.searchsorted(place, stack, side="right")
    for low, high in zip((begins[first] + 1).tolist(), behind.tolist(), strict=True):
        is_of_parent[low:high] = True
    return is_of_parent


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
