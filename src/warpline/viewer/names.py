"""The names of a container: every text with its category, numbered across all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I32, I64, Integers
from warpline.trace import StringPool

LONGEST = 1000
NO_NAME = "(no name)"
MERGED = "(nested too deep, merged)"


class Category(NamedTuple):
    """The category of an event, which determines its color.

    Attributes:
        name: One word.
        kind: busy, idle, host, range, op, api, os, or other.
        meaning: A short phrase.
    """

    name: str
    kind: str
    meaning: str


_HOST = (
    Category("cuda-api", "api", "CUDA runtime and driver API calls"),
    Category("nvtx", "range", "NVTX ranges and framework annotations"),
    Category("step", "range", "analyzed steps"),
    Category("excluded-step", "range", "steps excluded from the analysis"),
    Category("operator", "op", "framework operators"),
    Category("python", "op", "Python function and module calls"),
    Category("os-call", "os", "operating system calls"),
    Category("profiler", "other", "profiler overhead"),
    Category("sample", "other", "CPU samples"),
    Category("counter", "other", "counter values"),
    Category("clock-limit-heat", "other", "clock limited by heat"),
    Category("clock-limit-power", "other", "clock limited by power"),
    Category("clock-limit-setting", "other", "clock limited by a setting"),
    Category("gpu-error", "other", "errors of a GPU"),
    Category("attribute", "other", "text attributes"),
    Category("running", "other", "threads on a CPU core"),
    Category("runnable", "other", "threads that wait for a CPU core"),
    Category("blocked", "other", "blocked threads"),
)


def _parts() -> tuple[Category, ...]:
    return tuple(
        Category(part.label, "busy" if part.is_busy else "idle", part.meaning) for part in TimePart
    )


# Categories of GPU time come first: their indices are those of `TimePart`.
CATEGORIES: tuple[Category, ...] = (*_parts(), *_HOST)
_PLACES = {category.name: place for place, category in enumerate(CATEGORIES)}


def category(name: str) -> int:
    """Return the index of a category in `CATEGORIES`."""
    return _PLACES[name]


class Names:
    """Collects names; assigned numbers do not change."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._place: dict[tuple[str, int], int] = {}
        self._labels: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._place)

    def add(self, text: str, category_place: int, label: str | None = None) -> int:
        """Return the number of a text in a category; `label` is a shorter text to draw."""
        place = self._place.setdefault((cut(text), category_place), len(self._place))
        if label is not None and label != text:
            self._labels.setdefault(place, cut(label))
        return place

    def add_all(
        self,
        ids: Integers,
        categories: Integers | int,
        labels: Mapping[int, str] = MappingProxyType({}),
    ) -> I32:
        """Return the numbers of many texts, shape (n,).

        Args:
            ids: Shape (n,), rows of the string pool; -1 for no text.
            categories: Shape (n,), indices in `CATEGORIES`, or one for all.
            labels: Shorter texts to draw, by row of the string pool.
        """
        wide = np.asarray(ids, np.int64) + 1
        keys = wide * len(CATEGORIES) + np.asarray(categories, np.int64)
        used, codes = _distinct(keys, (len(self._strings) + 1) * len(CATEGORIES))
        numbers = [self._number(key, labels) for key in used.tolist()]
        return np.array(numbers, np.int32)[codes]

    def _number(self, key: int, labels: Mapping[int, str]) -> int:
        row, place = divmod(key, len(CATEGORIES))
        text = self._strings.text(row - 1) if row else NO_NAME
        return self.add(text, place, labels.get(row - 1))

    def places_of(self) -> dict[str, list[int]]:
        """Return the numbers of each event text, over all categories."""
        places: dict[str, list[int]] = {}
        for place, (text, kind) in enumerate(self._place):
            if kind == category("attribute"):
                continue
            places.setdefault(text, []).append(place)
        return places

    def categories(self) -> I64:
        """Return the category of each name, shape (names,)."""
        return np.fromiter((key[1] for key in self._place), np.int64, len(self._place))

    def content(self) -> dict[str, Sequence[Any]]:
        """Return the content of the block of names."""
        return {
            "texts": [text for text, _ in self._place],
            "categories": [place for _, place in self._place],
            "labels": [self._labels.get(place) for place in range(len(self))],
        }


def cut(text: str) -> str:
    """Return the text, truncated if it is very long."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _distinct(keys: I64, limit: int) -> tuple[I64, I64]:
    """Return the distinct keys in ascending order, and the index of each key among them."""
    if limit <= 4 * len(keys) + 2**20:
        used = np.zeros(limit, np.bool_)
        used[keys] = True
        distinct = np.flatnonzero(used)
        number = np.zeros(limit, np.int64)
        number[distinct] = np.arange(len(distinct))
        return distinct, number[keys]
    distinct, codes = np.unique(keys, return_inverse=True)
    return distinct, codes
