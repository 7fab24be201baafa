"""Text columns, stored as rows of the string pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray, Integers
from warpline.result import Texts
from warpline.trace import ColumnData, StringPool, Trace

# The endings of versioned functions, backwards: a name of megabytes is then looked at once.
_ENDINGS = lazy_pattern(r"(?:[0-9]++v_|zstp_|sdtp_|tps_)*+")


def without_version(name: str) -> str:
    """Return a CUDA function's name without endings such as ``_v2`` and ``_ptsz``."""
    endings = _ENDINGS.match(name[::-1])
    return name[: len(name) - endings.end()] if endings else name


def number_texts(ids: Integers, text_count: int) -> tuple[I32, I64]:
    """Number the distinct texts of a column consecutively, in linear time.

    Args:
        ids: Shape (n,), rows of the string pool.
        text_count: Rows of the pool.

    Returns:
        The number of each row's text, shape (n,), and the pool row of each number.
    """
    used: BoolArray = np.zeros(text_count, np.bool_)
    used[ids] = True
    distinct = np.flatnonzero(used)
    number = np.zeros(text_count, np.int32)
    number[distinct] = np.arange(len(distinct), dtype=np.int32)
    return number[ids], distinct


class TextNumbers:
    """Numbers for the distinct texts of a column that comes in blocks, in order of appearance.

    Args:
        strings: The trace's texts.
    """

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each number."""
        return tuple(self._numbers)

    def of(self, ids: Integers) -> I32:
        """Return the number of each text, shape (n,).

        Args:
            ids: Shape (n,), rows of the string pool.
        """
        codes, distinct = number_texts(ids, len(self._strings))
        texts = self._strings.texts(distinct.tolist())
        numbers = [self._numbers.setdefault(text, len(self._numbers)) for text in texts]
        return np.array(numbers, np.int32)[codes]


def kernel_names(trace: Trace) -> tuple[I32, I64]:
    """Return `number_texts` of all kernels: shape (kernels,), and the pool row of each number.

    Not kept: it takes 2 ms per million kernels, and its memory would stay between larger arrays.
    """
    return number_texts(trace.columns("kernel", "name_id")["name_id"].values, len(trace.strings))


def dimension_texts(strings: StringPool, names: ColumnData, rows: Integers) -> Texts:
    """Return a dimension's text for each row of another table.

    Args:
        strings: The trace's texts.
        names: The dimension's text column, shape (m,).
        rows: Shape (n,), the row of the dimension that each row refers to.
    """
    texts = [None if name is None else strings.text(name) for name in names.to_list()]
    return labelled(rows, texts)


def labelled(
    codes: Integers, labels: Sequence[str | None], valid: BoolArray | None = None
) -> Texts:
    """Return a text for each code; null where the label is None or `valid` is False."""
    present = np.array([label is not None for label in labels], np.bool_)
    shown = present[codes] if valid is None else present[codes] & valid
    return Texts(
        np.where(shown, codes, -1).astype(np.int32),
        ["" if label is None else label for label in labels],
    )
