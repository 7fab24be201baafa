"""The call stacks of a memory snapshot as the tables stack and frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import I32
from warpline.ops.stacks import intern
from warpline.schema import TABLES
from warpline.schema.labels import CODE_KINDS
from warpline.trace.column import ColumnData, make_column
from warpline.trace.strings import StringPool

_KIND = {label: value for value, label in CODE_KINDS.items()}
_NONE = -1
_MOST_LINES = 1 << 31


class Stacks:
    """Stacks as lists of frames, innermost first, each a dict of filename, line and name.

    Lists and frames are shared objects, mostly: each object is looked at once.
    """

    def __init__(self) -> None:
        self._chain_of_list: dict[int, int] = {}  # by id; the snapshot keeps the lists
        self._chains: dict[tuple[int, ...], int] = {}
        self._frame_of_dict: dict[int, int] = {}
        self._frames: dict[tuple[str, str, int], int] = {}  # file, name, line

    def of(self, items: Sequence[Mapping[str, Any]], place: str) -> I32:
        """Return the number of each item's stack, shape (n,); -1 for one without frames.

        Raises CorruptTraceError if there is something else than frames.
        """
        known, found = self._chain_of_list, np.empty(len(items), np.int32)
        for row, item in enumerate(items):
            frames = item.get("frames")
            chain = known.get(id(frames))
            if chain is None:
                chain = known[id(frames)] = self._chain(frames, f"{place}[{row}]")
            found[row] = chain
        return found

    def _chain(self, frames: Any, place: str) -> int:
        if not frames:
            return _NONE
        if not isinstance(frames, (list, tuple)):
            raise CorruptTraceError(f"{place}: frames is not a list")
        known = self._frame_of_dict
        numbers = tuple(
            known[id(frame)] if id(frame) in known else self._frame(frame, place)
            for frame in frames
        )
        return self._chains.setdefault(numbers, len(self._chains))

    def _frame(self, frame: Any, place: str) -> int:
        if type(frame) is not dict:
            raise CorruptTraceError(f"{place}: a frame is not a dict")
        file, name, line = frame.get("filename"), frame.get("name"), frame.get("line")
        if not (isinstance(file, str) and isinstance(name, str) and isinstance(line, int)):
            raise CorruptTraceError(f"{place}: a frame has no filename, name and line")
        # torch writes -1 without a sign for code without lines.
        key = file, name, line if 0 < line < _MOST_LINES else 0
        number = self._frames.setdefault(key, len(self._frames))
        self._frame_of_dict[id(frame)] = number
        return number

    def tables(self, strings: StringPool) -> tuple[dict[str, dict[str, ColumnData]], I32]:
        """Return the tables stack and frame, and the row of stack of each chain and of none.

        Args:
            strings: The pool that gets names and files.
        """
        lengths = [len(chain) for chain in self._chains]
        chain = np.repeat(np.arange(len(lengths)), lengths)
        frames = np.array([frame for chain in self._chains for frame in chain], np.int64)
        stacks, _, row_of_chain = intern(chain, np.arange(len(chain)), frames)
        spec = TABLES["stack"]
        stack = {
            "parent_id": make_column(spec.column("parent_id"), stacks.parent, stacks.depth > 0),
            "frame_id": make_column(spec.column("frame_id"), stacks.frame),
            "depth": make_column(spec.column("depth"), stacks.depth),
        }
        return {"stack": stack, "frame": self._frame_table(strings)}, np.append(
            row_of_chain, np.int32(_NONE)
        )

    def _frame_table(self, strings: StringPool) -> dict[str, ColumnData]:
        spec, places = TABLES["frame"], list(self._frames)
        lines = np.array([line for _, _, line in places], np.int64)
        nothing = np.zeros(len(places), np.int64)
        values: dict[str, Any] = {
            "symbol_id": [strings.intern_text(name) for _, name, _ in places],
            "module_id": [strings.intern_text(file) for file, _, _ in places],
            "file_id": nothing,
            "line": lines,
            "kind": [_KIND["Python" if _is_python(file) else "Native"] for file, _, _ in places],
            "is_unresolved": np.zeros(len(places), np.bool_),
            "address": nothing,
        }
        valid = {"file_id": nothing > 0, "line": lines > 0, "address": nothing > 0}
        return {
            name: make_column(spec.column(name), column, valid.get(name))
            for name, column in values.items()
        }


def _is_python(file: str) -> bool:
    """Return whether a frame is Python's by its file: a module, or ``<string>`` and the like."""
    return file.endswith(".py") or file.startswith("<")
