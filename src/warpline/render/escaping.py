"""Escapes names from a recording for printing, and measures them in terminal columns.

Names are untrusted: they may hold escape sequences, line ends, and bidirectional controls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpline.lazy import lazy

if TYPE_CHECKING:
    import unicodedata
else:  # a large module that few recordings need
    unicodedata = lazy("unicodedata")

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, *, unicode: bool = True) -> str:
    r"""Return the text with unprintable characters escaped.

    Control and format characters (escape sequences, bidirectional overrides), unassigned ones
    and lone surrogates become ``\n``, ``\x1b`` or ``\u202e``.

    Args:
        text: Any text.
        unicode: False escapes all non-ASCII characters.
    """
    if text.isprintable() and (unicode or text.isascii()):
        return text
    return "".join(
        char if char.isprintable() and (unicode or char.isascii()) else _escape(char)
        for char in text
    )


def _escape(char: str) -> str:
    short = _SHORT_ESCAPES.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def writable(text: str, *, unicode: bool = True) -> str:
    r"""Return the text with unencodable characters escaped: lone surrogates as ``\udc80``.

    Control characters stay: this is for data, not for display.

    Args:
        text: Any text.
        unicode: False escapes all non-ASCII characters.
    """
    if text.isascii():
        return text
    encoding = "utf-8" if unicode else "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def display_width(text: str) -> int:
    """Return the terminal columns of a printable text: 2 for an East Asian wide character."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """Shorten a text in its middle to at most `width` columns.

    Two thirds of the rest are its beginning: kernel names differ at both ends, but the beginning
    is the most informative.
    """
    if display_width(text) <= width:
        return text
    room = width - len(ellipsis)
    if room <= 0:
        return ellipsis[:width]
    tail = room // 3
    return _head(text, room - tail) + ellipsis + _head(text[::-1], tail)[::-1]


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    used = 0
    for count, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:count]
    return text


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a printable text at spaces into lines of at most `width` columns.

    Later lines begin with `indent`. A longer word has a line of its own. Takes linear time, unlike
    textwrap.
    """
    lines: list[str] = []
    words: list[str] = []
    used = 0
    for word in text.split(" "):
        length = display_width(word) + 1
        if words and used + length - 1 > width:
            lines.append(" ".join(words))
            words, used = [], len(indent)
        words.append(word if words or not lines else indent + word)
        used += length
    return [*lines, " ".join(words)]


def pad(text: str, width: int) -> str:
    """Pad a text with spaces to `width` terminal columns."""
    return text + " " * (width - display_width(text))
