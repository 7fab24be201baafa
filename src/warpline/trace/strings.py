"""The pool of texts that name columns refer to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


class StringPool:
    """Texts by row number. The pool only grows, and the text of a row never changes.

    Texts are stored as the bytes in the file and decoded on use. Bytes that are not UTF-8 become
    U+FFFD.
    """

    def __init__(self) -> None:
        self._raw: list[bytes] = []
        self._text: dict[int, str] = {}
        self._row: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._raw)

    def intern(self, raw: bytes) -> int:
        """Return the row of a text in bytes, and add the text if it is new."""
        row = self._row.get(raw)
        if row is None:
            row = self._row[raw] = len(self._raw)
            self._raw.append(raw)
        return row

    def intern_text(self, text: str) -> int:
        """Return the row of a text, and add the text if it is new."""
        return self.intern(text.encode("utf-8", "surrogatepass"))

    def intern_all(self, raws: Iterable[bytes]) -> I32:
        """Return the rows of many texts, shape (n,)."""
        return np.fromiter((self.intern(raw) for raw in raws), np.int32)

    def raw(self, row: int) -> bytes:
        """Return the bytes of a row."""
        return self._raw[row]

    def text(self, row: int) -> str:
        """Return the text of a row."""
        text = self._text.get(row)
        if text is None:
            text = self._text[row] = self._raw[row].decode("utf-8", "replace")
        return text

    def texts(self, rows: Sequence[int] | I32) -> list[str]:
        """Return the texts of many rows, in their order."""
        chosen = rows.tolist() if isinstance(rows, np.ndarray) else rows
        return [self.text(row) for row in chosen]

    def find(self, text: str) -> int | None:
        """Return the row of a text, or None if it is not in the pool.

        The texts of a column are in the pool once it has been loaded: load it first.
        """
        return self._row.get(text.encode("utf-8", "surrogatepass"))
