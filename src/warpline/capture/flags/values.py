"""Values of flags that several commands have, each a function that stores one in the settings."""

from __future__ import annotations

import enum
from typing import Any

from warpline.capture.flags.grammar import FALSE_WORDS, TRUE_WORDS, Given, Set
from warpline.errors import UsageError


def text(settings: Any, flag: Given) -> None:
    """Store a text that is not empty."""
    if not flag.value:
        raise UsageError(f"{flag.name} requires a value", hint=flag.hint)
    setattr(settings, flag.attribute, flag.value)


def nothing(settings: Any, flag: Given) -> None:
    """Store nothing: the flag has no effect here."""


def boolean(settings: Any, flag: Given) -> None:
    """Store true or false."""
    word = flag.value.lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise flag.bad("true or false")
    setattr(settings, flag.attribute, word in TRUE_WORDS)


def number(least: int, most: int) -> Set:
    """Return what stores a number within limits."""

    def set_number(settings: Any, flag: Given) -> None:
        value = flag.value
        if not (value.isascii() and value.isdecimal()) or not least <= int(value) <= most:
            raise flag.bad(f"a number from {least} to {most}")
        setattr(settings, flag.attribute, int(value))

    return set_number


def share(settings: Any, flag: Given) -> None:
    """Store a fraction: ``2%`` or ``0.02``."""
    is_percent = flag.value.endswith("%")
    try:
        found = float(flag.value.removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        found = 0.0
    if not 1e-5 <= found <= 1:
        raise flag.bad("a fraction such as 2% or 0.02")
    setattr(settings, flag.attribute, found)


def one_of(words: type[enum.StrEnum]) -> Set:
    """Return what stores one of some words, in any case."""
    by_word = {word.lower(): word for word in words}

    def set_one(settings: Any, flag: Given) -> None:
        if flag.value.lower() not in by_word:
            raise flag.bad(f"one of {', '.join(words)}")
        setattr(settings, flag.attribute, by_word[flag.value.lower()])

    return set_one


def range_and_domain(settings: Any, flag: Given) -> None:
    """Store an NVTX range and its domain, None without one: ``RANGE[@DOMAIN]``."""
    parts = split(flag.value, "@")
    if len(parts) > 2:
        parts = ["@".join(parts[:-1]), parts[-1]]
    if not parts[0]:
        raise flag.bad("RANGE[@DOMAIN]")
    setattr(settings, flag.attribute, (parts[0], parts[1] if len(parts) > 1 else None))


def split(text: str, mark: str) -> list[str]:
    """Split at a mark; a backslash escapes the next character."""
    parts = [""]
    place = 0
    while place < len(text):
        if text[place] == "\\" and place + 1 < len(text):
            place += 1
            parts[-1] += text[place]
        elif text[place] == mark:
            parts.append("")
        else:
            parts[-1] += text[place]
        place += 1
    return parts
