"""The names of a container: every text with its category, numbered once for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.breakdown.part_meanings import PART_MEANINGS
from warpline.derived.breakdown.segments import PARTS, is_busy
from warpline.ops.arrays import I64, Integers
from warpline.trace import StringPool

LONGEST = 1000
NO_NAME = "(no name)"
MERGED = "(nested too deep to be drawn one by one)"


class Category(NamedTuple):
    """What an event is: the page colours by it.

    Attributes:
        name: A word.
        kind: busy, idle, host, range, op, api, os or other.
        meaning: Half a sentence.
    """

    name: str
    kind: str
    meaning: str


_HOST = (
    Category("cuda-api", "api", "calls of the CUDA runtime and driver"),
    Category("nvtx", "range", "ranges that the program or a framework marked"),
    Category("operator", "op", "operators of the framework"),
    Category("python", "op", "calls of Python functions and modules"),
    Category("os-call", "os", "calls of the operating system"),
    Category("profiler", "other", "what the profiler did"),
    Category("sample", "other", "samples of what a thread was doing"),
    Category("counter", "other", "values over time"),
    Category("attribute", "other", "texts of the details"),
)


def _parts() -> tuple[Category, ...]:
    busy = is_busy(np.arange(len(PARTS), dtype=np.int8)).tolist()
    kinds = ("busy" if each else "idle" for each in busy)
    return tuple(
        Category(part, kind, PART_MEANINGS[part]) for part, kind in zip(PARTS, kinds, strict=True)
    )


# Categories of device time come first: their places are those of `PARTS`.
CATEGORIES: tuple[Category, ...] = (*_parts(), *_HOST)
_PLACES = {category.name: place for place, category in enumerate(CATEGORIES)}


def category(name: str) -> int:
    """Return the place of a category in `CATEGORIES`."""
    return _PLACES[name]


class Names:
    """Collects names; a number once given stays."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._place: dict[tuple[str, int], int] = {}
        self._labels: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._place)

    def add(self, text: str, category_place: int, label: str | None = None) -> int:
        """Return the number of a text in a category; a label is a shorter text to draw."""
        place = self._place.setdefault((cut(text), category_place), len(self._place))
        if label is not None and label != text:
            self._labels.setdefault(place, cut(label))
        return place

    def add_all(
        self, ids: Integers, categories: Integers | int, labels: Integers | None = None
    ) -> I64:
        """Return the numbers of many texts, shape (n,).

        Args:
            ids: Shape (n,), rows of the string pool; -1 for no text.
            categories: Shape (n,), places in `CATEGORIES`, or one for all.
            labels: Shape (n,), shorter texts, rows of the string pool; the first of a name counts.
        """
        wide = np.asarray(ids, np.int64) + 1
        keys = wide * len(CATEGORIES) + np.asarray(categories, np.int64)
        used, codes = _distinct(keys, (len(self._strings) + 1) * len(CATEGORIES))
        short: dict[int, int] = {}
        if labels is not None:
            first = np.zeros(len(used), np.int64)
            first[codes[::-1]] = labels[::-1]
            short = dict(zip(used.tolist(), first.tolist(), strict=True))
        numbers = [self._number(key, short.get(key)) for key in used.tolist()]
        return np.array(numbers, np.int64)[codes]

    def _number(self, key: int, label: int | None) -> int:
        row, place = divmod(key, len(CATEGORIES))
        text = self._strings.text(row - 1) if row else NO_NAME
        return self.add(text, place, None if label is None else self._strings.text(label))

    def places_of(self) -> dict[str, list[int]]:
        """Return the numbers of each text that events have, of all categories."""
        found: dict[str, list[int]] = {}
        for place, (text, kind) in enumerate(self._place):
            if kind == category("attribute"):
                continue
            found.setdefault(text, []).append(place)
        return found

    def categories(self) -> I64:
        """Return the category of each name, shape (names,)."""
        return np.fromiter((key[1] for key in self._place), np.int64, len(self._place))

    def content(self) -> dict[str, Sequence[Any]]:
        """Return the block of names."""
        return {
            "texts": [text for text, _ in self._place],
            "categories": [place for _, place in self._place],
            "labels": [self._labels.get(place) for place in range(len(self))],
        }


def cut(text: str) -> str:
    """Return the text, shortened if it is very long."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _distinct(keys: I64, limit: int) -> tuple[I64, I64]:
    """Return the distinct keys, by first appearance in sorted order, and the place of each key."""
    if limit <= 4 * len(keys) + 2**20:
        used = np.zeros(limit, np.bool_)
        used[keys] = True
        distinct = np.flatnonzero(used)
        number = np.zeros(limit, np.int64)
        number[distinct] = np.arange(len(distinct))
        return distinct, number[keys]
    distinct, codes = np.unique(keys, return_inverse=True)
    return distinct, codes
