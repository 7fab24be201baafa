"""The Python stacks of CUDA API calls, as text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32
from warpline.ops.stacks import Stacks, ancestors
from warpline.schema.labels import CODE_KINDS
from warpline.trace import ColumnData, Trace

_PYTHON = next(value for value, label in CODE_KINDS.items() if label == "Python")
_NONE = -1


class PythonStacks(NamedTuple):
    """A Python stack for each row of a table, such as `api_call`.

    Attributes:
        codes: Shape (rows,), int32, positions in `texts`; -1 for a row without Python frames.
        texts: The distinct stacks: a line ``file:line function`` per frame, innermost first.
    """

    codes: I32
    texts: tuple[str, ...]


@derived
def python_stacks(trace: Trace) -> PythonStacks:
    """Return the Python stack of each CUDA API call, without the native frames between.

    Codes are in the order of ``trace.columns("api_call", ...)``. Calls have stacks if the recording
    was made with ``--python-backtrace``; Python's threads alone have them.
    """
    if not trace.has("api_call") or not trace.has("stack"):
        calls = trace.row_count("api_call") if trace.has("api_call") else 0
        return PythonStacks(np.full(calls, _NONE, np.int32), ())
    return texts_of_stacks(trace, trace.columns("api_call", "stack_id")["stack_id"])


def texts_of_stacks(trace: Trace, stack_id: ColumnData) -> PythonStacks:
    """Return the Python stack of each row of a table with stacks, in the order of the column."""
    valid = stack_id.is_valid()
    used = np.unique(stack_id.values[valid])
    texts = _texts(trace, used)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(filter(None, texts)))}
    number_of = np.array([*(numbers.get(text, _NONE) for text in texts), _NONE], np.int32)
    place = np.where(valid, np.searchsorted(used, stack_id.values), len(used))
    return PythonStacks(number_of[place], tuple(numbers))


def _texts(trace: Trace, stacks: I32) -> list[str]:
    """Return the text of each stack; an empty one if it has no Python frames."""
    columns = trace.columns("stack", "parent_id", "depth", "frame_id")
    tree = Stacks(*(columns[name].values for name in ("parent_id", "depth", "frame_id")))
    place, row = ancestors(tree, stacks)
    frame = tree.frame[row]
    is_python = trace.columns("frame", "kind")["kind"].values[frame] == _PYTHON
    lines: list[list[str]] = [[] for _ in stacks]
    shown = _frame_texts(trace, np.unique(frame[is_python]))
    for stack, number in zip(place[is_python].tolist(), frame[is_python].tolist(), strict=True):
        lines[stack].append(shown[number])
    return ["\n".join(each) for each in lines]


def _frame_texts(trace: Trace, frames: I32) -> dict[int, str]:
    columns = trace.columns("frame", "symbol_id", "module_id", "line")
    names, files = (
        trace.strings.texts(columns[name].values[frames].tolist())
        for name in ("symbol_id", "module_id")
    )
    lines = columns["line"]
    has_line = lines.is_valid()[frames].tolist()
    places = [
        f"{file}:{line}" if known else file
        for file, line, known in zip(files, lines.values[frames].tolist(), has_line, strict=True)
    ]
    texts = [f"{place} {name}" for place, name in zip(places, names, strict=True)]
    return dict(zip(frames.tolist(), texts, strict=True))
