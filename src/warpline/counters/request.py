"""What is asked for of counters: sets, sections and metrics, as options name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from warpline.counters.names import compiled
from warpline.counters.sets import SECTIONS, SETS, Section
from warpline.errors import UsageError
from warpline.frozen import frozen

DEFAULT_SET = "light"
_REGEX = "regex:"


@frozen
class Request:
    """What is asked for.

    Attributes:
        sets: Names of sets; the default one if nothing else is asked for.
        section_names: Names of sections, or ``regex:`` and an expression.
        metrics: Metrics, in the notation of `names`.
        is_exact: Whether a section's metrics come without their other rollups over units.
    """

    sets: tuple[str, ...] = ()
    section_names: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    is_exact: bool = False

    @classmethod
    def of(
        cls,
        sets: Sequence[str],
        sections: Sequence[str],
        metrics: Sequence[str],
        *,
        is_exact: bool = False,
    ) -> Self:
        """Return what the values of options ask for, each a list of words."""
        named = words_of(sets), words_of(sections), words_of(metrics)
        default = () if any(named) else (DEFAULT_SET,)
        return cls(tuple(named[0]) or default, tuple(named[1]), tuple(named[2]), is_exact)

    @property
    def is_light(self) -> bool:
        """Whether it is the set of one pass, and nothing else."""
        return self.sets == (DEFAULT_SET,) and not (self.section_names or self.metrics)

    def sections(self) -> list[Section]:
        """Return the sections, each once.

        Raises:
            UsageError: A set or a section is unknown.
        """
        found = [section for name in self.sets for section in SETS.get(name).sections]
        found += [section for name in self.section_names for section in _sections_named(name)]
        if self.is_exact:
            found = [replace(section, is_exact=True) for section in found]
        return list(dict.fromkeys(found))

    def text(self) -> str:
        """Return it in words: ``set full, section Occupancy, --metrics``."""
        parts = [f"set {name}" for name in self.sets]
        parts += [f"section {name}" for name in self.section_names]
        return ", ".join([*parts, "--metrics"] if self.metrics else parts)


def words_of(values: Sequence[str]) -> list[str]:
    """Return the words of a repeatable option whose values are separated by commas.

    A regular expression may have commas of its own, so it takes the rest of its value.
    """
    words = []
    for value in values:
        before, is_expression, expression = value.partition(_REGEX)
        words += [word.strip() for word in before.split(",") if word.strip()]
        if is_expression:
            words.append(is_expression + expression)
    return words


def _sections_named(name: str) -> list[Section]:
    if not name.startswith(_REGEX):
        return [SECTIONS.get(name)]
    pattern = compiled(name.removeprefix(_REGEX))
    found = [section for section in SECTIONS if pattern.search(section.name)]
    if not found:
        raise UsageError(
            f"no section matches {name!r}", hint="warpline kernels --list-sections lists them"
        )
    return found
