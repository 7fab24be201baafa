"""The grammar of commands that run a program: flags, then the program's command line.

A flag takes its value after ``=``, as the next word or, in its short form, attached
(``-sprocess-tree``). Flags end at ``--`` or at the first word that is not a flag. The rest is the
program's command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warpline.errors import UsageError

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
IDLE_VALUES = frozenset({"", "none", "false", "no", "off", "0"})
_MOST_EXPANDED = 8


@dataclass(frozen=True)
class Given:
    """A flag with its value, as it was given.

    Attributes:
        name: Its spelling.
        value: The value; ``true`` for a switch without one.
        attribute: The attribute of the settings that it sets.
        hint: The hint of errors.
    """

    name: str
    value: str
    attribute: str
    hint: str

    def bad(self, wanted: str) -> UsageError:
        """Return the error about the value, given what was expected."""
        return UsageError(f"{self.name} {self.value}: expected {wanted}", hint=self.hint)


Set = Callable[[Any, Given], None]  # settings, flag; raises UsageError


@dataclass(frozen=True)
class Flag:
    """A flag of a command.

    Attributes:
        names: Its spellings, the short form first if there is one.
        metavar: The placeholder for its value in the help; empty if it takes none.
        help: The help text.
        set: Stores the value in the settings, or raises UsageError.
        is_switch: The value, true or false, is optional.
        is_hidden: Omitted from the help.
        group: The heading above it in the help; empty for none.
        expand: Returns the words that the flag stands for; they are read in its place.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    set: Set
    is_switch: bool = False
    is_hidden: bool = False
    group: str = ""
    expand: Callable[[str], list[str]] | None = None

    @property
    def attribute(self) -> str:
        """The attribute of the settings that the flag sets."""
        return self.names[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class ForeignFlag:
    """A flag of another profiler without a counterpart.

    Attributes:
        name: The long form.
        reason: Why it is unsupported, or what to use instead.
        effect: How the warning describes it: "not supported", or "ignored" if the flag records
            nothing in the other profiler either; "refused" if the command would do something else.
        is_switch: It takes no value.
        idle: Further values that turn it off, beside `IDLE_VALUES`.
    """

    name: str
    reason: str
    effect: str = "not supported"
    is_switch: bool = False
    idle: frozenset[str] = frozenset()

    def is_idle(self, value: str) -> bool:
        """Return whether a value turns it off."""
        return not self.is_switch and value.lower() in IDLE_VALUES | self.idle


class Settings(Protocol):
    """What flags set: attributes named after them."""

    given: set[str]

    def foreign(self, flag: ForeignFlag, name: str) -> None:
        """Take note of a flag of another profiler; UsageError if it is refused."""


@dataclass(frozen=True)
class Grammar:
    """The flags of a command.

    Attributes:
        command: The command, such as ``warpline profile``.
        flags: Its own flags.
        foreign: Flags of another profiler, by name.
    """

    command: str
    flags: tuple[Flag, ...]
    foreign: Mapping[str, ForeignFlag]
    by_name: Mapping[str, Flag] = field(init=False)

    def __post_init__(self) -> None:
        """Index the flags by name."""
        named = {name: flag for flag in self.flags for name in flag.names}
        object.__setattr__(self, "by_name", named)

    @property
    def hint(self) -> str:
        """The hint of errors about flags."""
        return f"see {self.command} --help"

    def find(self, name: str) -> Flag | ForeignFlag | None:
        """Return the flag with this name, or None."""
        return self.by_name.get(name) or self.foreign.get(name)

    def asks_for_help(self, words: Sequence[str]) -> bool:
        """Return whether ``-h`` or ``--help`` is given before the program."""
        return not {"-h", "--help"}.isdisjoint(self.own_names(words))

    def own_names(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the names of the flags before the program."""
        place = 0
        while place < len(words) and words[place].startswith("-") and words[place] != "--":
            yield words[place].partition("=")[0]
            place += 1 + self.takes_next(words, place)

    def read(self, words: Sequence[str], settings: Settings) -> list[str]:
        """Set what the flags before the program say, and return the words that follow.

        These begin with ``--`` if the flags ended there.

        Raises:
            UsageError: A flag is unknown, or its value is missing or invalid.
        """
        return _Reader(self, settings).read(list(words))

    def pieces(self, words: Sequence[str]) -> Iterator[tuple[Flag | ForeignFlag, Sequence[str]]]:
        """Yield each flag before the program with its words, and what a file of flags has in place.

        The words have been read without an error.
        """
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] not in {"-", "--"}:
            name, _, value = rest[0].partition("=")
            name = name if name.startswith("--") else name[:2]
            count = 1 + self.takes_next(rest, 0)
            found = self.find(name)
            if found is None:
                raise self.unknown(name)
            if isinstance(found, Flag) and found.expand is not None:
                rest[:count] = found.expand(rest[1] if count > 1 else value)
                continue
            yield found, rest[:count]
            rest = rest[count:]

    def takes_next(self, words: Sequence[str], place: int) -> bool:
        """Return whether the word at an index is a flag that takes the next word as its value."""
        found = self.find(words[place])
        if found is None:
            return False
        if isinstance(found, ForeignFlag):
            return not found.is_switch
        if not found.metavar:
            return False
        if found.is_switch:
            return place + 1 < len(words) and words[place + 1].lower() in TRUE_WORDS | FALSE_WORDS
        return True

    def unknown(self, name: str) -> UsageError:
        """Return the error about a flag that does not exist."""
        known = [*self.by_name, *self.foreign]
        near = difflib.get_close_matches(name, [word for word in known if len(word) > 2], n=1)
        otherwise = f"{self.hint}; put the program's flags after its name"
        hint = f"did you mean {near[0]}?" if near else otherwise
        return UsageError(f"unknown flag {name!r} of {self.command}", hint=hint)


class _Reader:
    """Reads flags up to the program's command line."""

    def __init__(self, grammar: Grammar, settings: Settings) -> None:
        self._grammar = grammar
        self._settings = settings
        self._said: set[str] = set()
        self._expanded = 0

    def read(self, words: list[str]) -> list[str]:
        while words and words[0].startswith("-") and words[0] not in {"-", "--"}:
            words = self._flag(words)
        return words

    def _flag(self, words: list[str]) -> list[str]:
        """Consume the first flag and return the remaining words."""
        word, rest = words[0], words[1:]
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        else:
            name, value = word[:2], word[2:].removeprefix("=")
            equals = "=" if len(word) > 2 else ""
        found = self._grammar.find(name)
        if found is None:
            raise self._grammar.unknown(name)
        given: str | None = value if equals else None
        if given is None and self._grammar.takes_next(words, 0):
            if not rest or rest[0] == "--":
                raise UsageError(f"{name} requires a value", hint=self._grammar.hint)
            given, rest = rest[0], rest[1:]
        if isinstance(found, ForeignFlag):
            self._foreign(found, name, given or "")
        elif found.expand is not None:
            return [*self._words_of(found.expand, name, given or ""), *rest]
        else:
            self._own(found, name, given)
        return rest

    def _own(self, flag: Flag, name: str, value: str | None) -> None:
        if value is not None and not flag.metavar:
            raise UsageError(f"{name} takes no value", hint=self._grammar.hint)
        self._settings.given.add(flag.attribute)
        said = "true" if value is None else value
        flag.set(self._settings, Given(name, said, flag.attribute, self._grammar.hint))

    def _foreign(self, flag: ForeignFlag, name: str, value: str) -> None:
        if flag.is_idle(value) or flag.name in self._said:
            return
        self._said.add(flag.name)
        self._settings.foreign(flag, name)

    def _words_of(self, expand: Callable[[str], list[str]], name: str, value: str) -> list[str]:
        self._expanded += 1
        if self._expanded > _MOST_EXPANDED:
            raise UsageError(f"{name} {value}: more than {_MOST_EXPANDED} nested files")
        return expand(value)
