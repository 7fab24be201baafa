"""Weighted stacks with one tree of labels: what exports and flame graphs are made from."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from warpline.derived import derived
from warpline.derived.flame.weighted import Choice, Of, Weighted, weighted
from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64, Integers
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.stacks import Stacks, merge
from warpline.trace import Trace

NO_STACK = "[no backtrace]"
NO_PYTHON = "[no Python frames]"
UNKNOWN_CODE = "[unknown]"
_NONE = -1


class LabelKind(IntEnum):
    """What a frame of a flame graph is; the first four are `schema.labels.CODE_KINDS`."""

    OTHER = 0
    NATIVE = 1
    KERNEL = 2
    PYTHON = 3
    GPU = 4
    OS = 5


_LEAVES: dict[Of, LabelKind] = {"gpu": LabelKind.GPU, "os": LabelKind.OS, "offcpu": LabelKind.OS}


@frozen
class Labels:
    """What frames are called; each attribute has an entry per label.

    Attributes:
        name: Function, kernel, or OS call. ``[libc.so.6]`` for code without a symbol.
        module: File of Python code, or library; empty if there is none.
        file: File of the line: source of native code, else as `module`.
        line: The line in the file; 0 if unknown.
        kind: What it is, of `LabelKind`.
        function: Labels that differ only in their line have the same number.
    """

    name: list[str]
    module: list[str]
    file: list[str]
    line: list[int]
    kind: list[int]
    function: list[int]

    def __len__(self) -> int:
        return len(self.name)

    def chosen(self, places: Integers) -> Labels:
        """Return some of the labels."""
        columns = (self.name, self.module, self.file, self.line, self.kind, self.function)
        rows = places.tolist()
        return Labels(*([column[row] for row in rows] for column in columns))

    def text(self, place: int) -> str:
        """Return a label as one text: ``decode_jpeg (dataset.py:41)`` for Python, else the name."""
        if self.kind[place] != LabelKind.PYTHON or not self.module[place]:
            return self.name[place]
        line = f":{self.line[place]}" if self.line[place] else ""
        return f"{self.name[place]} ({base_name(self.module[place])}{line})"

    def add(self, names: list[str], kind: LabelKind) -> None:
        """Add labels that are no code."""
        first = max(self.function, default=-1) + 1
        self.function.extend(range(first, first + len(names)))
        self.name.extend(names)
        self.module.extend([""] * len(names))
        self.file.extend([""] * len(names))
        self.line.extend([0] * len(names))
        self.kind.extend([kind] * len(names))


@frozen
class Profile:
    """Weighted stacks, each of a node of one tree.

    Attributes:
        stacks: The tree: its frames are places in `labels`.
        labels: What frames are called.
        time_ns: When each stack was taken or began, shape (n,).
        thread: Rows of the table thread, -1 if unknown, shape (n,).
        node: Rows of `stacks`, shape (n,).
        weight_ns: Not negative, shape (n,).
    """

    stacks: Stacks
    labels: Labels
    time_ns: I64
    thread: I32
    node: I32
    weight_ns: I64


@derived
def profile(trace: Trace, choice: Choice) -> Profile:
    """Return the weighted stacks of one kind.

    Frames of one function have one label, or one per line where lines are known, whatever their
    address. A stack without frames is the label `NO_STACK`, so the sum of all weights is that of
    what was recorded.
    If only Python frames are kept, a stack without any is `NO_PYTHON`.
    """
    given = weighted(trace, choice)
    labels, label_of_frame = _labels(trace)
    if choice.python_only:
        is_python = np.array(labels.kind, np.int8) == LabelKind.PYTHON
        label_of_frame = np.where(is_python[label_of_frame], label_of_frame, _NONE)
    has_stack = given.stack >= 0
    node = np.full(len(given.stack), _NONE, np.int32)
    stacks, node[has_stack] = merge(_stacks(trace), label_of_frame, given.stack[has_stack])
    for text, missing in ((NO_STACK, ~has_stack), (NO_PYTHON, has_stack & (node < 0))):
        if missing.any():
            labels.add([text], LabelKind.OTHER)
            node[missing] = len(stacks)
            stacks = _grown(stacks, np.array([_NONE]), np.array([len(labels) - 1]))
    stacks, node = _with_leaves(stacks, node, given, len(labels))
    labels.add([*given.leaves], _LEAVES.get(choice.of, LabelKind.OTHER))
    used = distinct_values(stacks.frame)
    place = np.searchsorted(used, stacks.frame).astype(np.int32)
    stacks = Stacks(stacks.parent, stacks.depth, place)
    return Profile(stacks, labels.chosen(used), given.time_ns, given.thread, node, given.weight_ns)


def _labels(trace: Trace) -> tuple[Labels, I32]:
    """Return the labels of frames, and the label of each frame."""
    if not trace.has("frame"):
        return Labels([], [], [], [], [], []), np.zeros(0, np.int32)
    names = ("symbol_id", "module_id", "kind", "file_id", "line")
    columns = trace.columns("frame", *names, "is_unresolved")
    rows = [columns[name].filled(_NONE).astype(np.int64) for name in names]
    rows[0][columns["is_unresolved"].values.astype(np.bool_)] = _NONE
    groups = factorize_rows(*rows)
    symbol, module, kind, file, line = (each[groups.first] for each in rows)
    modules = _texts(trace, module)
    labels = Labels(
        [
            name or _unresolved(module)
            for name, module in zip(_texts(trace, symbol), modules, strict=True)
        ],
        modules,
        [file or module for file, module in zip(_texts(trace, file), modules, strict=True)],
        np.maximum(line, 0).tolist(),
        np.where((kind >= 0) & (kind <= LabelKind.PYTHON), kind, LabelKind.OTHER).tolist(),
        factorize_rows(symbol, module, kind).codes.tolist(),
    )
    return labels, groups.codes


def _texts(trace: Trace, ids: I64) -> list[str]:
    """Return texts of the string pool; an empty one for -1."""
    known = ids >= 0
    found = np.full(len(ids), "", object)
    found[known] = trace.strings.texts(ids[known].tolist())
    return found.tolist()


def _unresolved(module: str) -> str:
    """Return the name of code without a symbol: its library in brackets, as perf shows it."""
    name = base_name(module)
    return name if name.startswith("[") else f"[{name}]" if name else UNKNOWN_CODE


def base_name(path: str) -> str:
    """Return the last part of a path of any system."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _stacks(trace: Trace) -> Stacks:
    if not trace.has("stack"):
        return Stacks(*[np.zeros(0, np.int32)] * 3)
    columns = trace.columns("stack", "parent_id", "depth", "frame_id")
    return Stacks(*(columns[name].filled(0).astype(np.int32) for name in columns))


def _grown(stacks: Stacks, parent: I64, label: I64) -> Stacks:
    """Return the tree with more stacks; a parent of -1 is none."""
    depth = np.where(parent >= 0, np.append(stacks.depth, 0)[parent] + 1, 0)
    added = (np.maximum(parent, 0), depth, label)
    columns = (stacks.parent, stacks.depth, stacks.frame)
    return Stacks(
        *(np.append(own, new).astype(np.int32) for own, new in zip(columns, added, strict=True))
    )


def _with_leaves(stacks: Stacks, node: I32, given: Weighted, first: int) -> tuple[Stacks, I32]:
    """Add what ran below the innermost frames, whose labels begin at `first`."""
    has_leaf = given.leaf >= 0
    inner, leaf = node[has_leaf].astype(np.int64), given.leaf[has_leaf].astype(np.int64)
    groups = factorize_rows(inner, leaf)
    inner, leaf = inner[groups.first], leaf[groups.first]
    node = node.copy()
    node[has_leaf] = len(stacks) + groups.codes
    return _grown(stacks, inner, first + leaf), node
