"""The points of a sweep: parameters with their values, and a command line filled with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise, product

from warpline.errors import UsageError
from warpline.frozen import frozen

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a command line has in braces: a parameter, or the text {NAME} written as {{NAME}}.
_PLACE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_STEP = re.compile(r"([x+-])(.+)", re.DOTALL)
_FORMS = (
    "use --vary N=256,512,1024, --vary N=256:4096:x2, --vary N=32:256:+32 or --vary N=1,2,4,..."
)
_ON = "..."  # the last value of a parameter whose values go on
MOST_POINTS = 10_000
MOST_OPEN = 200  # values of a parameter whose values go on


@frozen
class Parameter:
    """A parameter that is varied.

    Attributes:
        name: Its name in the command line, in braces.
        values: Its values, as the program gets them; the first ones, if more follow.
        is_open: Whether its values go on, as ``1,2,4,...``, until a run fails.
    """

    name: str
    values: tuple[str, ...]
    is_open: bool = False

    @property
    def word(self) -> str:
        """The parameter as the value of ``--vary``."""
        return f"{self.name}={','.join(self.words)}"

    @property
    def words(self) -> tuple[str, ...]:
        """Its values, with an ellipsis at the end if they go on."""
        return (*self.values, _ON) if self.is_open else self.values

    @classmethod
    def of_words(cls, name: str, words: Sequence[str]) -> Parameter:
        """Return the parameter that has these `words`."""
        is_open = words[-1:] == (_ON,)
        return cls(name, tuple(words[:-1] if is_open else words), is_open)

    @property
    def is_numeric(self) -> bool:
        """Whether all its values are numbers."""
        return all(number(value) is not None for value in self.values)

    def following(self, last: str) -> str:
        """Return the value after one of an open parameter: the progression goes on."""
        first, second = (Decimal(value) for value in self.values[:2])
        is_sum = _is_sum(self.values)
        return text_of(Decimal(last) + second - first if is_sum else Decimal(last) * second / first)


Point = Mapping[str, str]  # the value of each parameter, by its name


def parameter(word: str) -> Parameter:
    """Return what a value of ``--vary`` means.

    It is ``N=1,2,4``, ``N=1:64:x2``, ``N=0:1:+0.25``, or, for values that go on, ``N=1,2,4,...``.
    Ranges include their end if a step reaches it. Steps are exact.

    Raises:
        UsageError: It is none of these, or the range has no end.
    """
    name, equals, text = word.partition("=")
    if not equals or not text:
        raise UsageError(f"--vary {word}: expected NAME=VALUES", hint=_FORMS)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--vary {word}: {name!r} is not a name", hint="use letters, digits and underscores"
        )
    parts = text.split(":")
    if len(parts) > 1 and "," not in text:
        return Parameter(name, _range(word, parts))
    values = tuple(value.strip() for value in text.split(","))
    if not all(values):
        raise UsageError(f"--vary {word}: a value is empty", hint=_FORMS)
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise UsageError(f"--vary {word}: {twice} is there twice", hint="name each value once")
    if _ON in values:
        return _open(word, name, values)
    return Parameter(name, values)


def _open(word: str, name: str, values: tuple[str, ...]) -> Parameter:
    """Return a parameter whose values go on; three say how."""
    *given, last = values
    numbers = [number(value) for value in given]
    if last != _ON or len(given) < 3 or None in numbers:
        raise UsageError(
            f"--vary {word}: expected three numbers or more before ...",
            hint="use --vary N=1,2,4,... or --vary N=8,16,24,...",
        )
    found = Parameter(name, tuple(given), is_open=True)
    is_going_on = 0 not in numbers or _is_sum(given)
    if not is_going_on or any(
        Decimal(found.following(a)) != Decimal(b) for a, b in pairwise(given)
    ):
        raise UsageError(
            f"--vary {word}: neither differences nor ratios are equal",
            hint="use --vary N=1,2,4,... or --vary N=8,16,24,...",
        )
    return found


def _is_sum(values: Sequence[str]) -> bool:
    """Return whether the first differences of a progression are equal, not the ratios."""
    first, second, third = (Decimal(value) for value in values[:3])
    return second - first == third - second


def _range(word: str, parts: Sequence[str]) -> tuple[str, ...]:
    step = _STEP.fullmatch(parts[2]) if len(parts) == 3 else None
    if step is None:
        raise UsageError(
            f"--vary {word}: expected START:STOP:xFACTOR or START:STOP:+STEP", hint=_FORMS
        )
    value, stop, change = (_number(word, part) for part in (parts[0], parts[1], step[2]))
    if step[1] == "x":
        grows = change > 1
        is_endless = change <= 0 or change == 1 or value == 0 or (value < 0) != (stop < 0)
        is_endless = is_endless or stop == 0
        rises = (value > 0) == grows
    else:
        change = -change if step[1] == "-" else change
        is_endless = change == 0
        rises = change > 0
    if is_endless or (stop - value) * (1 if rises else -1) < 0:
        raise UsageError(f"--vary {word}: never reaches {parts[1]}", hint=_FORMS)
    values: list[str] = []
    while value <= stop if rises else value >= stop:
        values.append(text_of(value))
        if len(values) > MOST_POINTS:
            raise UsageError(f"--vary {word}: more than {MOST_POINTS:,} values", hint=_FORMS)
        value = value * change if step[1] == "x" else value + change
    return tuple(values)


def number(text: str) -> Decimal | None:
    """Return a value as a number; None if it is none."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() and "_" not in text else None


def _number(word: str, text: str) -> Decimal:
    found = number(text)
    if found is None:
        raise UsageError(f"--vary {word}: {text!r} is not a number", hint=_FORMS)
    return found


def text_of(value: Decimal) -> str:
    """Return a number without an exponent or zeros at its end: 0.50 is 0.5."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def points(parameters: Sequence[Parameter], *, are_zipped: bool) -> list[Point]:
    """Return all combinations of values, the last parameter varying fastest; or the n-th of each.

    Args:
        parameters: At least one.
        are_zipped: Whether all parameters vary together.

    Raises:
        UsageError: A name is there twice, numbers of values differ where they vary together,
            values go on where they cannot, or there are too many points.
    """
    names = [item.name for item in parameters]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"--vary {twice} is given twice", hint=f"use --vary {twice}=VALUE,VALUE,..."
        )
    open_ones = [item.name for item in parameters if item.is_open]
    if len(open_ones) > 1 or (open_ones and are_zipped):
        where = "with --zip" if are_zipped else f"of {' and '.join(open_ones)} at once"
        raise UsageError(f"values cannot go on (...) {where}", hint="give a last value")
    lists = [item.values for item in parameters]
    if are_zipped and len({len(values) for values in lists}) > 1:
        counts = ", ".join(f"{item.name} has {len(item.values)}" for item in parameters)
        raise UsageError(
            f"--zip takes as many values of each parameter: {counts}",
            hint="leave out --zip for all combinations",
        )
    total = 1
    for values in lists:
        total = len(values) if are_zipped else total * len(values)
    if total > MOST_POINTS:
        raise UsageError(f"{total:,} points: more than {MOST_POINTS:,}", hint="vary fewer values")
    rows = zip(*lists, strict=True) if are_zipped else product(*lists)
    return [dict(zip(names, row, strict=True)) for row in rows]


def check_places(command: Sequence[str], names: Sequence[str]) -> None:
    """Check that a command line has all parameters in braces, and no others.

    Raises:
        UsageError: It has not.
    """
    places = {found[2] for word in command for found in _PLACE.finditer(word) if found[2]}
    unknown = sorted(places - {*names})
    if unknown:
        name = unknown[0]
        raise UsageError(
            f"{{{name}}} is in the command, but {name} is not varied",
            hint=f"add --vary {name}=VALUES, or write {{{{{name}}}}} for the text {{{name}}}",
        )
    unused = next((name for name in names if name not in places), None)
    if unused is not None:
        raise UsageError(
            f"--vary {unused}: {{{unused}}} is not in the command",
            hint=f"put {{{unused}}} where the program takes the value; for an environment variable,"
            f" use env VARIABLE={{{unused}}} PROGRAM",
        )


def filled(command: Sequence[str], point: Point) -> tuple[str, ...]:
    """Return a command line with the values of a point in the place of ``{NAME}``."""

    def put(found: re.Match[str]) -> str:
        return f"{{{found[1]}}}" if found[1] else point[found[2]]

    return tuple(_PLACE.sub(put, word) for word in command)


def title(point: Mapping[str, object]) -> str:
    """Return a point in words: ``N=256 BLOCK=128``."""
    return " ".join(f"{name}={value}" for name, value in point.items())
