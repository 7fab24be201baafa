"""Words of a shell command line, each as it is written and as the shell would pass it on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from warpline.errors import UsageError

_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_VARIABLE = re.compile(r"[$`]")


class Word(NamedTuple):
    """A word.

    Attributes:
        value: What a program gets.
        raw: How it is written, with its quotes.
    """

    value: str
    raw: str

    @property
    def is_computed(self) -> bool:
        """Whether the shell replaces a part of it, such as a variable."""
        return bool(_VARIABLE.search(self.raw)) and not self.raw.startswith("'")


def split(line: str) -> list[Word]:
    """Return the words of a line, which may go on after a backslash at the end of a line.

    Raises:
        UsageError: A quote is not closed.
    """
    text = re.sub(r"\\\r?\n", " ", line)
    words = [Word(_value(found[0]), found[0]) for found in _WORD.finditer(text)]
    if _WORD.sub("", text).strip():
        raise UsageError(
            "a quote in the line is not closed", hint="put the line in 'single quotes'"
        )
    return words


def quoted(values: Sequence[str]) -> list[Word]:
    """Return words that a program got, written as a shell takes them."""
    return [Word(value, shlex.quote(value)) for value in values]


def _value(raw: str) -> str:
    parts = shlex.split(raw)
    return parts[0] if len(parts) == 1 else raw
