"""Texts of an export: the StringIds table and inline texts, as rows of a string pool."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from warpline.ops.arrays import I32, I64, BoolArray, taken
from warpline.readers.nsys.database import RawCodes, RawText
from warpline.readers.nsys.export import Export, SourceTable
from warpline.trace.strings import StringPool

TABLE = "StringIds"
NO_NAME = b"[unknown]"


class Names:
    """Rows of a string pool for the texts of an export. Only texts in use enter the pool."""

    def __init__(self, export: Export, pool: StringPool) -> None:
        self.pool = pool
        self._export = export
        self._rows: dict[int, int] = {}

    def of_ids(self, ids: RawCodes) -> I32:
        """Return the pool row of each StringIds id, shape (n,).

        A null id gives a meaningless row. An id without text gives a placeholder.
        """
        known = self._rows
        keys: list[int] = np.asarray(ids.keys).tolist()
        rows = [known[key] if key in known else self._add(key) for key in keys]
        return taken(np.array(rows, np.int32), ids.codes) if rows else np.zeros(0, np.int32)

    def of_texts(self, texts: RawCodes) -> tuple[I32, BoolArray | None]:
        """Return the pool row of each inline text (0 where there is none), and the mask.

        Both have shape (n,).
        """
        assert isinstance(texts.keys, tuple), "texts, not integers"
        # Row 0 comes last, where the code -1 of a missing text finds it.
        rows = [self.pool.intern(text) for text in texts.keys]
        return taken(np.array([*rows, 0], np.int32), texts.codes), texts.valid

    def text_of_id(self, key: int) -> str:
        """Return the text of one StringIds id."""
        return self.pool.text(self._rows[key] if key in self._rows else self._add(key))

    def holds(self, text: bytes) -> bool:
        """Return whether a text, or one that contains it, is in StringIds."""
        return text in self._table[2].blob.tobytes()

    def _add(self, key: int) -> int:
        ids, order, texts = self._table
        place = int(np.searchsorted(ids, key))
        if place < len(ids) and ids[place] == key:
            row = place if order is None else int(order[place])
            content = texts.blob[texts.offsets[row] : texts.offsets[row + 1]].tobytes()
            if texts.valid is not None and not texts.valid[row]:
                content = NO_NAME
        else:
            content = f"[missing string {key}]".encode()
        self._rows[key] = self.pool.intern(content)
        return self._rows[key]

    @cached_property
    def _table(self) -> tuple[I64, I64 | None, RawText]:
        """Ids ascending, the row of each (None if it is its own place), and the texts."""
        table = SourceTable.facts(self._export, TABLE, ints=["id"], texts=["value"])
        ids = table.ints("id").values
        if bool(np.all(ids[1:] > ids[:-1])):
            return ids, None, table.texts("value")
        order = np.argsort(ids, kind="stable")
        return ids[order], order, table.texts("value")
