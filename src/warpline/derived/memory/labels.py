"""What the blocks of `allocations` are named after: operator, module, line of the program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import FRAMEWORK, allocations
from warpline.derived.memory.kinds import MemoryKind, kinds_of_allocations
from warpline.derived.memory.modules import modules_of_allocations
from warpline.derived.memory.places import operators_of_allocations
from warpline.derived.python_stacks import PythonStacks, texts_of_stacks
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64
from warpline.trace import Trace

By = Literal["kind", "module", "line", "operator"]
BYS: tuple[By, ...] = get_args(By)

_NONE = -1
# Frames of Python itself and of installed packages, and code without a file.
_FOREIGN = lazy_pattern(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3[.\d]*[/\\]|\A<")
_FRAME = lazy_pattern(r"(?P<file>.*?)(?P<line>:\d+)? (?P<function>\S.*)")


class Labels(NamedTuple):
    """A text for each event of `allocations`.

    Attributes:
        codes: Shape (events,), int64, positions in `texts`; -1 for none.
        texts: The distinct texts.
    """

    codes: I64
    texts: tuple[str, ...]


@derived
def labels_of_allocations(trace: Trace, by: By) -> Labels:
    """Return what each event of `allocations` is named after."""
    return _MAKERS[by](trace)


@derived
def stacks_of_allocations(trace: Trace) -> PythonStacks:
    """Return the Python stack of each event of `allocations`."""
    events = allocations(trace)
    codes = np.full(len(events), _NONE, np.int32)
    if not trace.has("allocator_event") or not trace.has("stack"):
        return PythonStacks(codes, ())
    stack_id = trace.columns("allocator_event", "stack_id")["stack_id"]
    of_rows = texts_of_stacks(trace, stack_id)
    own = np.flatnonzero(events.allocator == FRAMEWORK)
    codes[own] = of_rows.codes[events.row[own]]
    return PythonStacks(codes, of_rows.texts)


def line_of_stack(stack: str) -> str:
    """Return the frame of a stack that is the program's: ``/a/model.py:42 forward``.

    It is the innermost one that is not of an installed package, otherwise the innermost one.

    Args:
        stack: A line ``file:line function`` per frame, innermost first.
    """
    frames = stack.split("\n")
    return next((frame for frame in frames if not _FOREIGN.search(frame)), frames[0])


def short_lines(frames: Sequence[str]) -> list[str]:
    """Return frames with the names of files only, or with a directory where names repeat."""
    parts = [_FRAME.fullmatch(frame) for frame in frames]
    files = {found["file"] for found in parts if found}
    names = Counter(re.split(r"[/\\]", file)[-1] for file in files)
    return [_short(frame, found, names) for frame, found in zip(frames, parts, strict=True)]


def _short(frame: str, found: re.Match[str] | None, names: Mapping[str, int]) -> str:
    if found is None:
        return frame
    parts = found["file"].replace("\\", "/").rsplit("/", 2)
    name = parts[-1] if names[parts[-1]] == 1 else "/".join(parts[-2:])
    return f"{name}{found['line'] or ''} {found['function']}"


def _by_operator(trace: Trace) -> Labels:
    operators = operators_of_allocations(trace)
    return _distinct(np.where(operators.found, operators.name, _NONE), operators.names)


def _by_module(trace: Trace) -> Labels:
    return _distinct(*modules_of_allocations(trace))


def _by_line(trace: Trace) -> Labels:
    stacks = stacks_of_allocations(trace)
    lines = short_lines([line_of_stack(text) for text in stacks.texts])
    place = {line: number for number, line in enumerate(dict.fromkeys(lines))}
    number = np.array([*(place[line] for line in lines), _NONE], np.int64)
    return Labels(number[stacks.codes], tuple(place))


def _by_kind(trace: Trace) -> Labels:
    return _distinct(kinds_of_allocations(trace).astype(np.int64), MemoryKind.labels())


def _distinct(codes: I64, texts: Sequence[str]) -> Labels:
    """Return labels with the texts that are used only."""
    used = np.unique(codes[codes >= 0])
    number = np.full(len(texts) + 1, _NONE, np.int64)
    number[used] = np.arange(len(used))
    return Labels(number[codes], tuple(texts[code] for code in used.tolist()))


_MAKERS: Mapping[By, Callable[[Trace], Labels]] = {
    "kind": _by_kind,
    "module": _by_module,
    "line": _by_line,
    "operator": _by_operator,
}
