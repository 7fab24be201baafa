"""Lines of text that fit the screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from warpline.render import Options
from warpline.render.escaping import shorten, visible

GAP = "  "
BOLD, DIM = "\x1b[1m", "\x1b[2m"
_RESET = "\x1b[0m"
_WIDTH = 100  # without a terminal
_WIDEST = 120  # longer lines are hard to read
_NARROWEST = 12  # narrower text is unreadable: lines may then exceed the screen
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|ms|s)(?!\w))")


class Lines:
    """Breaks and styles text into lines that fit the screen.

    Attributes:
        width: Columns of the screen.
        unicode: Whether the output can show any Unicode character.
        ellipsis: Marks where text was cut.
    """

    def __init__(self, options: Options) -> None:
        self._color = options.color
        self.unicode = options.unicode
        self.width = min(options.width or _WIDTH, _WIDEST)
        self.ellipsis = "…" if options.unicode else "..."

    def wrapped(
        self, text: str, first: str, later: str | None = None, style: str = ""
    ) -> Iterator[str]:
        """Yield text in lines indented by `first`, from the second line on by `later`.

        Without room for the longest word, `first` indents all lines: a name in a fix stays whole.
        """
        longest = max(map(len, text.split()), default=0)
        rest = first if later is None or len(later) + longest > self.width else later
        width = max(self.width, len(rest) + _NARROWEST)
        for line in self._wrap(text, width, first, rest):
            yield self.styled(line, style)

    def broken(self, text: str, width: int) -> list[str]:
        """Return text in lines of `width` columns; at least one."""
        return self._wrap(text, max(width, _NARROWEST), "", "")

    def _wrap(self, text: str, width: int, first: str, later: str) -> list[str]:
        # Keep a number and its unit together. Clean text contains no no-break space.
        glued = _UNIT.sub("\xa0", self.clean(text))
        wrapped = textwrap.wrap(
            glued,
            width,
            initial_indent=first,
            subsequent_indent=later,
            break_on_hyphens=False,
        )
        return [line.replace("\xa0", " ") for line in wrapped] or [first]

    def cut(self, name: str, width: int) -> str:
        """Shorten a kernel name at its end: the first template arguments are the most telling."""
        if len(name) <= width or not name.isascii():
            return shorten(name, width, self.ellipsis)
        return name[: width - len(self.ellipsis)] + self.ellipsis

    def fit(self, text: str) -> str:
        """Shorten text to one line."""
        return shorten(self.clean(text), self.width, self.ellipsis)

    def clean(self, text: str) -> str:
        """Return text with escape sequences and control characters made visible."""
        return visible(text, unicode=self.unicode)

    def styled(self, text: str, code: str) -> str:
        """Return text in a color or weight if the output supports them."""
        return f"{code}{text}{_RESET}" if self._color and code else text
