"""Lines of text that fit a screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from warpline.render import Options
from warpline.render.escaping import shorten, visible

GAP = "  "
BOLD, DIM = "\x1b[1m", "\x1b[2m"
_RESET = "\x1b[0m"
_WIDTH = 100  # where no terminal says another
_WIDEST = 120  # longer lines are hard to read
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|ms|s)(?!\w))")


class Lines:
    """Makes lines of texts, as wide as the screen at most.

    Attributes:
        width: Columns of the screen.
        unicode: Whether it shows every character.
        ellipsis: What stands where a text was cut.
    """

    def __init__(self, options: Options) -> None:
        self._color = options.color
        self.unicode = options.unicode
        self.width = min(options.width or _WIDTH, _WIDEST)
        self.ellipsis = "…" if options.unicode else "..."

    def wrapped(
        self, text: str, first: str, later: str | None = None, style: str = ""
    ) -> Iterator[str]:
        """Yield a text in lines that begin with `first`, and with `later` from the second on."""
        rest = first if later is None else later
        broken = self.broken(text, self.width - len(rest))
        for place, line in enumerate(broken):
            yield self.styled(f"{rest if place else first}{line}", style)

    def broken(self, text: str, width: int) -> list[str]:
        """Return a text in lines of a width; at least one."""
        # A number and its unit stay together. No clean text holds the character that glues them.
        glued = _UNIT.sub("\xa0", self.clean(text))
        broken = textwrap.wrap(
            glued, max(width, 20), break_long_words=False, break_on_hyphens=False
        )
        return [line.replace("\xa0", " ") for line in broken] or [""]

    def cut(self, name: str, width: int) -> str:
        """Shorten the name of a kernel at its end: the first arguments tell most."""
        if len(name) <= width or not name.isascii():
            return shorten(name, width, self.ellipsis)
        return name[: width - len(self.ellipsis)] + self.ellipsis

    def fit(self, text: str) -> str:
        """Shorten a text to a line."""
        return shorten(self.clean(text), self.width, self.ellipsis)

    def clean(self, text: str) -> str:
        """Return a text with what could harm a screen made visible."""
        return visible(text, unicode=self.unicode)

    def styled(self, text: str, code: str) -> str:
        """Return a text in a colour or weight, where the screen has any."""
        return f"{code}{text}{_RESET}" if self._color and code else text
