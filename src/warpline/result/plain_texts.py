"""Many texts in two arrays, for columns whose texts all differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt


class PlainTexts(Sequence[str]):
    """Texts of digits and colons, which no output format escapes or quotes.

    They take a few bytes each; a list of Python strings takes 60 bytes more per text.

    Attributes:
        blob: The texts one after another, uint8.
        offsets: Shape (n + 1,), int64: text i is ``blob[offsets[i]:offsets[i + 1]]``.
    """

    def __init__(self, blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self.blob = blob
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        return self._decode(number, number + 1)

    def __iter__(self) -> Iterator[str]:
        if not len(self):
            return
        text, first = self._decode(0, len(self)), int(self.offsets[0])
        begin = 0
        for end in (self.offsets[1:] - first).tolist():
            yield text[begin:end]
            begin = end

    def _decode(self, first: int, last: int) -> str:
        return self.blob[self.offsets[first] : self.offsets[last]].tobytes().decode("ascii")
