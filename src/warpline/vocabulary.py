"""Words as numbers: what the small integers of an array stand for."""

from __future__ import annotations

from enum import Enum
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray


class Vocabulary(Enum):
    """A closed list of words, which arrays hold as int8: the first member is 0, the next 1.

    Members are declared as ``NAME = "label"`` or ``NAME = "label", "meaning"``. In numpy
    expressions a member acts as an int8 scalar (``cause == TimePart.INPUT``), and so does not widen
    the array, as a member of an IntEnum would. It never equals a Python int: `at` and `of` turn
    numbers and labels into members.

    Attributes:
        label: The text that results, JSON and pages show.
        meaning: The label in a few words, or empty.
    """

    label: str
    meaning: str
    _scalar: NDArray[np.int8]

    def __new__(cls, label: str, meaning: str = "") -> Self:
        """Number the members in the order of their declaration."""
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.label, member.meaning = label, meaning
        member._scalar = np.array(member._value_, np.int8)
        member._scalar.flags.writeable = False
        return member

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self._scalar if dtype is None else self._scalar.astype(dtype)

    def __index__(self) -> int:
        number: int = self._value_
        return number

    @classmethod
    def at(cls, number: int) -> Self:
        """Return the member with a number; another number raises ValueError."""
        return cls(cast("Any", number))

    @classmethod
    def of(cls, label: str) -> Self:
        """Return the member with a label; another label raises KeyError."""
        for member in cls:
            if member.label == label:
                return member
        raise KeyError(label)

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """Return the label of each number."""
        return tuple(member.label for member in cls)
