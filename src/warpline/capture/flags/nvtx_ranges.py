r"""NVTX expressions of ``--nvtx-include`` and ``--nvtx-exclude``, in the notation of ncu.

- ``A`` is a start/end range of the process; ``A,B`` means that both are open.
- ``A/`` is a push/pop range of the launching thread. In ``A/B``, B is the next range after A;
  in ``A/+/B`` one range is between them, in ``A/*/B`` any number. ``[A`` is the outermost range
  and ``A]`` the innermost.
- ``DOMAIN@`` before it names the domain; without it, it is the default domain.
- ``regex:`` before all makes names expressions, which are searched for in the names.
- A backslash makes the next of ``@ , [ ] / * +`` a character of the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpline.errors import UsageError

REGEX = "regex:"
MOST_NAMES = 64  # of all expressions; the agent keeps a bit for each

_MARKS = frozenset("@,[]/*+")
_ESCAPABLE = _MARKS | frozenset("\\.^$?(){}|")
_DEFAULT_DOMAINS = frozenset({"<default domain>", "<default-domain>"})
_BRACKETS = "write /[ and /] for brackets of an expression at the start and the end of the ranges"
_ESCAPE = "write a backslash before @ , [ ] / * + that belong to a name"

# A character of an expression, and whether it is one of the marks.
_Char = tuple[str, bool]


@dataclass(frozen=True)
class RangeExpression:
    """A parsed expression.

    Attributes:
        text: As it was given.
        is_stack: Push/pop ranges of a thread; otherwise start/end ranges.
        is_regex: Names are regular expressions.
        domain: Its name; empty for the default domain.
        parts: Names, each after ``=``, with ``*`` and ``+`` between them, ``[`` before and ``]``
            after them.
    """

    text: str
    is_stack: bool
    is_regex: bool
    domain: str
    parts: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of ranges."""
        return tuple(part[1:] for part in self.parts if part.startswith("="))

    @property
    def is_single(self) -> bool:
        """Whether it is one plain range, wherever it is in the stack."""
        return len(self.parts) == 1 and not self.is_regex

    def lines(self) -> str:
        """Return what the agent reads."""
        kind = "push" if self.is_stack else "start"
        how = "regex" if self.is_regex else "text"
        shown = self.text.replace("\n", " ")
        return "\n".join((shown, kind, how, self.domain, *self.parts))


def parse_ranges(flag: str, text: str) -> RangeExpression:
    """Parse an expression.

    Args:
        flag: The option, for errors.
        text: The expression.

    Raises:
        UsageError: It is malformed.
    """
    return _Parser(flag, text).parse()


class _Parser:
    """Parses the expression of an option."""

    def __init__(self, flag: str, text: str) -> None:
        self._given = f"{flag} {text}"
        self._text = text
        self._is_regex = text.startswith(REGEX)

    def parse(self) -> RangeExpression:
        chars = self._chars(self._text.removeprefix(REGEX))
        domain: list[_Char] = []
        if ("@", True) in chars:
            at = chars.index(("@", True))
            domain, chars = chars[:at], chars[at + 1 :]
            if not domain:
                raise self._bad("no domain before @", "omit the @ for the default domain")
            if ("@", True) in chars:
                raise self._bad("more than one domain", "repeat the option for another domain")
        chars, at_bottom, at_top = self._ends(chars)
        is_stack = at_bottom or at_top or ("/", True) in chars
        parts = _split(chars, "/" if is_stack else ",")
        if is_stack and parts and not parts[-1]:
            parts.pop()  # A/
        words = [self._part(part) for part in parts]
        if not words or words[0] in {"*", "+"} or words[-1] in {"*", "+"}:
            raise self._bad("* and + need a range on both sides" if words else "no range", None)
        if at_bottom:
            words.insert(0, "[")
        if at_top:
            words.append("]")
        name = self._name(domain) if domain else ""
        return RangeExpression(
            self._text,
            is_stack,
            self._is_regex,
            "" if name in _DEFAULT_DOMAINS else name,
            tuple(words),
        )

    def _chars(self, text: str) -> list[_Char]:
        """Return the characters; the marks are those without a backslash."""
        found: list[_Char] = []
        place = 0
        while place < len(text):
            following = text[place + 1 : place + 2]
            if text[place] == "\\" and following in _ESCAPABLE and following:
                if self._is_regex:  # which has the same escapes
                    found.append(("\\", False))
                found.append((following, False))
                place += 2
            else:
                found.append((text[place], text[place] in _MARKS))
                place += 1
        return found

    def _ends(self, chars: list[_Char]) -> tuple[list[_Char], bool, bool]:
        """Return the ranges without [ before and ] after them, and whether these were there.

        In a regular expression, /[ and /] there are brackets of the expression.
        """
        if self._is_regex and chars[:2] == [("/", True), ("[", True)]:
            chars = [("[", False), *chars[2:]]
        if self._is_regex and chars[-2:] == [("/", True), ("]", True)]:
            chars = [*chars[:-2], ("]", False)]
        at_bottom = chars[:1] == [("[", True)]
        at_top = chars[-1:] == [("]", True)]
        marks = [char for char, is_mark in chars[at_bottom:] if is_mark and char in "[]"]
        if self._is_regex and at_bottom and marks[:1] == ["]"] and len(marks) > at_top:
            raise self._bad("[ is the bottom of the stack", _BRACKETS)
        return chars[at_bottom : len(chars) - at_top], at_bottom, at_top

    def _part(self, chars: list[_Char]) -> str:
        """Return a part as the agent reads it."""
        if len(chars) == 1 and chars[0] in {("*", True), ("+", True)}:
            return chars[0][0]
        if not chars:
            raise self._bad("a range has no name", None)
        return "=" + self._name(chars)

    def _name(self, chars: list[_Char]) -> str:
        name = "".join(char for char, _ in chars)
        if "\n" in name:
            raise self._bad("a name has a line break", None)
        if self._is_regex:
            try:
                re.compile(name)
            except re.error as error:
                raise self._bad(f"invalid expression {name!r}: {error}", _BRACKETS) from None
        else:
            marks = [char for char, is_mark in chars if is_mark]
            if marks:
                raise self._bad(f"unexpected {marks[0]}", _ESCAPE)
        return name

    def _bad(self, problem: str, hint: str | None) -> UsageError:
        usage = "use RANGE for a start/end range, RANGE/ for a push/pop range, DOMAIN@RANGE/"
        return UsageError(f"{self._given}: {problem}", hint=hint or usage)


def _split(chars: list[_Char], mark: str) -> list[list[_Char]]:
    parts: list[list[_Char]] = [[]]
    for char in chars:
        if char == (mark, True):
            parts.append([])
        else:
            parts[-1].append(char)
    return parts
