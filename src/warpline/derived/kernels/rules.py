"""Classification of kernels by name, with rules from a data file.

The rules are in ``data/kernel_rules.json``; docs/kernel-classes.md describes the format. Users add
rules for their own kernels in a second file, set in the environment variable
WARPLINE_KERNEL_RULES. Its rules take precedence.

Patterns are plain text with ``*``, not regular expressions: matching time is proportional to the
name's length, even for hostile traces or careless rules.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from warpline.derived.time_parts import OF_KERNELS, TimePart
from warpline.errors import InputError
from warpline.lazy import lazy_pattern
from warpline.vocabulary import Vocabulary

VARIABLE = "WARPLINE_KERNEL_RULES"


class Origin(Vocabulary):
    """Where a kernel comes from."""

    CUBLAS = "cublas"
    CUDNN = "cudnn"
    CUTLASS = "cutlass"
    CUFFT = "cufft"
    CURAND = "curand"
    CUSPARSE = "cusparse"
    CUSOLVER = "cusolver"
    CUB = "cub"
    TENSORRT = "tensorrt"
    FLASH_ATTENTION = "flash-attention"
    NCCL = "nccl"
    RCCL = "rccl"
    NVSHMEM = "nvshmem"
    DEEPEP = "deepep"
    ROCM = "rocm"
    TRITON = "triton"
    XLA = "xla"
    FRAMEWORK = "framework"
    LIBRARY = "library"
    USER = "user"
    DRIVER = "driver"


KERNEL_CATEGORIES = tuple(part.label for part in OF_KERNELS)

# The start of a name identifies the kernel; CUTLASS names can be 10 kB long.
_LONGEST_NAME = 4096
_ANONYMOUS = lazy_pattern(r"<unnamed>::|\(anonymous namespace\)::|_GLOBAL__N__[0-9a-z_]*::")
_BRACKET = lazy_pattern(r"[<>()]")
_NUMBERING = lazy_pattern(r"[_.][0-9][0-9cde]*$")
_MANGLED = lazy_pattern(r"_ZN?K?")
_LENGTH = lazy_pattern(r"[0-9]{1,3}")
_TARGETS = ("name", "function", "base")
_COLLECTIVE_KEYS = ("family", "operation", "algorithm", "protocol")
_KEYS = {"id", *_TARGETS, "unless", "category", "origin", "collective", "why"}
_FORMAT_HINT = "docs/kernel-classes.md describes the format"


class KernelName(NamedTuple):
    """The parts of a kernel's name that rules match, in lower case.

    Attributes:
        name: As recorded, without anonymous namespaces; truncated to 4096 characters.
        function: The qualified name, without return type, template arguments, parameters and the
            numeric suffixes of Triton and XLA.
        base: The last part of `function`.
    """

    name: str
    function: str
    base: str


class Sequel(NamedTuple):
    """Pieces of text that must occur in this order, with anything in between."""

    pieces: tuple[str, ...]
    at_start: bool
    at_end: bool

    def matches(self, text: str) -> bool:
        """Return whether the text contains the pieces in order, in linear time."""
        *early, last = self.pieces
        place = 0
        for number, piece in enumerate(early):
            found = text.find(piece, place)
            if found < 0 or (found and self.at_start and not number):
                return False
            place = found + len(piece)
        if not self.at_end:
            return text.find(last, place) >= 0
        return text.endswith(last) and len(text) - len(last) >= place


class Patterns(NamedTuple):
    """Alternative patterns, by the way they are matched.

    Attributes:
        starts: Prefixes.
        wholes: Full texts.
        parts: Substrings.
        sequels: All other patterns.
    """

    starts: tuple[str, ...]
    wholes: frozenset[str]
    parts: tuple[str, ...]
    sequels: tuple[Sequel, ...]

    def match(self, text: str) -> bool:
        """Return whether one of the patterns matches the text."""
        # The hottest loops of this module: generator expressions would take twice as long.
        if text.startswith(self.starts) or text in self.wholes:
            return True
        for part in self.parts:
            if part in text:
                return True
        for sequel in self.sequels:  # noqa: SIM110
            if sequel.pieces[0] in text and sequel.matches(text):
                return True
        return False


class Rule(NamedTuple):
    """One rule: the names it matches, and their classification.

    Attributes:
        id: Its name.
        targets: Positions in a `KernelName` with the patterns for each; all must match.
        unless: Patterns that must not match the whole name.
        category: The label of a `TimePart`, or None if the rule sets no category.
        origin: The label of an `Origin`, or None if the rule sets no origin.
        collective: Known values of "family", "operation", "algorithm" and "protocol".
    """

    id: str
    targets: tuple[tuple[int, Patterns], ...]
    unless: Patterns | None
    category: str | None
    origin: str | None
    collective: Mapping[str, str]

    def matches(self, name: KernelName) -> bool:
        """Return whether the rule matches the name."""
        for place, patterns in self.targets:
            if not patterns.match(name[place]):
                return False
        return self.unless is None or not self.unless.match(name.name)


@dataclass(frozen=True)
class KernelClass:
    """The classification of a kernel.

    Attributes:
        category: The label of a `TimePart`.
        origin: The label of an `Origin`.
        category_rule: The rule that set the category; empty if no rule matches.
        collective: For collectives, known values of "family", "operation", "algorithm" and
            "protocol".
    """

    category: str
    origin: str
    category_rule: str = ""
    collective: Mapping[str, str] = field(default_factory=dict)


def kernel_class(name: str) -> KernelClass:
    """Return the classification of a kernel by its demangled name, or in part by a mangled one.

    The first matching rule with a category sets the category, and likewise for the origin. A name
    that matches no rule has the category "other" and the origin "user".

    Raises:
        InputError: The file named by WARPLINE_KERNEL_RULES cannot be used.
    """
    return _classified(name, os.environ.get(VARIABLE) or None)


@cache
def rules(extra_path: str | None = None) -> tuple[Rule, ...]:
    """Return the rules in order of precedence: those of the extra file first.

    Raises:
        InputError: The extra file cannot be read or is not a valid rules file.
    """
    built_in = files("warpline").joinpath("data", "kernel_rules.json").read_text("utf-8")
    own = read_rules(built_in, "kernel_rules.json")
    if extra_path is None:
        return own
    try:
        text = Path(extra_path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"{VARIABLE}: {extra_path}: {why}", hint=_FORMAT_HINT) from None
    return read_rules(text, f"{VARIABLE}: {extra_path}") + own


def read_rules(text: str, source: str) -> tuple[Rule, ...]:
    """Return the rules from a file's text.

    Args:
        text: JSON, in the format described in docs/kernel-classes.md.
        source: Name of the file in error messages.

    Raises:
        InputError: The text is not JSON or not in that format.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON: {error}", hint=_FORMAT_HINT) from None
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        raise _wrong(source, 'missing list "rules"')
    if document.get("version") != 1:
        raise _wrong(source, f'"version" is {document.get("version")!r}, expected 1')
    items = enumerate(document["rules"], 1)
    return tuple(_read_rule(f"{source}: rule {number}", item) for number, item in items)


def parse_name(name: str) -> KernelName:
    """Return the parts of a kernel's name that rules match."""
    whole = _ANONYMOUS.sub("", name[:_LONGEST_NAME])
    function = _mangled_function(whole) or _function(whole)
    function = _NUMBERING.sub("", function).lower()
    return KernelName(whole.lower(), function, function.rpartition("::")[2])


@lru_cache(maxsize=1 << 16)
def _classified(name: str, extra_path: str | None) -> KernelClass:
    parsed = parse_name(name)
    category = origin = None
    category_rule, collective = "", dict[str, str]()
    for rule in rules(extra_path):
        is_news = (category is None and rule.category) or (origin is None and rule.origin)
        if not is_news or not rule.matches(parsed):
            continue
        if category is None and rule.category:
            category, category_rule = rule.category, rule.id
            collective = dict(rule.collective)
        origin = origin or rule.origin
    return KernelClass(
        category or TimePart.OTHER.label, origin or Origin.USER.label, category_rule, collective
    )


def _function(name: str) -> str:
    """Return the qualified name of a demangled function, without bracketed parts."""
    plain: list[str] = []
    open_brackets: list[str] = []
    place = 0
    for found in _BRACKET.finditer(name):
        bracket, start = found.group(), found.start()
        if not open_brackets:
            plain.append(name[place:start])
        if bracket in "<(":
            if bracket == "(" and not open_brackets and _is_parameters(plain):
                return _last_word(plain)
            open_brackets.append(bracket)
        elif bracket == ")":
            while open_brackets and open_brackets.pop() != "(":
                pass
        elif open_brackets and open_brackets[-1] == "<":
            open_brackets.pop()
        place = start + 1
    if not open_brackets:
        plain.append(name[place:])
    return _last_word(plain)


def _is_parameters(plain: Sequence[str]) -> bool:
    text = "".join(plain).rstrip()
    return bool(text) and not text.endswith(("operator", "decltype", "&", "|", "!", "="))


def _last_word(plain: Sequence[str]) -> str:
    words = "".join(plain).split()
    return words[-1].removeprefix("::") if words else ""


def _mangled_function(name: str) -> str | None:
    """Return the qualified name at the start of a name mangled by the Itanium ABI."""
    head = _MANGLED.match(name)
    if head is None:
        return None
    parts: list[str] = []
    place = head.end()
    while length := _LENGTH.match(name, place):
        place = length.end() + int(length.group())
        parts.append(name[length.end() : place])
    kept = [part for part in parts if not part.startswith("_GLOBAL__N")]
    return "::".join(kept) or None


def _read_rule(label: str, item: Any) -> Rule:
    if not isinstance(item, dict):
        raise _wrong(label, "not a JSON object")
    label = f"{label} ({item['id']})" if "id" in item else label
    unknown = set(item) - _KEYS
    if unknown:
        raise _wrong(label, f"unknown key {min(unknown)!r}")
    present = [part for part in _TARGETS if part in item]
    if not present:
        raise _wrong(label, f"needs at least one of {', '.join(_TARGETS)}")
    if "category" not in item and "origin" not in item:
        raise _wrong(label, "needs a category or an origin")
    _text(label, "why", item.get("why", ""))
    return Rule(
        id=_text(label, "id", item.get("id", "")),
        targets=tuple(
            (_TARGETS.index(part), _patterns(label, part, item[part])) for part in present
        ),
        unless=_patterns(label, "unless", item["unless"]) if "unless" in item else None,
        category=_one_of(label, "category", _respelled(item.get("category")), KERNEL_CATEGORIES),
        origin=_one_of(label, "origin", item.get("origin"), Origin.labels()),
        collective=_collective(label, item.get("collective", {})),
    )


def _patterns(label: str, key: str, texts: Any) -> Patterns:
    if not isinstance(texts, list) or not texts:
        raise _wrong(label, f"{key!r} is not a list of patterns")
    sequels = [_sequel(label, _text(label, key, text)) for text in texts]
    single = [sequel for sequel in sequels if len(sequel.pieces) == 1]
    starts = tuple(s.pieces[0] for s in single if s.at_start and not s.at_end)
    wholes = frozenset(s.pieces[0] for s in single if s.at_start and s.at_end)
    parts = tuple(s.pieces[0] for s in single if not s.at_start and not s.at_end)
    others = (s for s in sequels if len(s.pieces) > 1 or (s.at_end and not s.at_start))
    return Patterns(starts, wholes, parts, tuple(others))


def _sequel(label: str, text: str) -> Sequel:
    at_start, at_end = text.startswith("^"), text.endswith("$")
    body = text.lower().removeprefix("^").removesuffix("$")
    pieces = tuple(piece for piece in body.split("*") if piece)
    if not pieces:
        raise _wrong(label, f"the pattern {text!r} matches everything")
    return Sequel(pieces, at_start and body[0] != "*", at_end and body[-1] != "*")


def _collective(label: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or set(value) - set(_COLLECTIVE_KEYS):
        raise _wrong(label, f"'collective' accepts only {', '.join(_COLLECTIVE_KEYS)}")
    return {key: _text(label, key, text) for key, text in value.items()}


def _respelled(category: Any) -> Any:
    """Return the current name of a category, so that existing rules files stay valid."""
    return "normalization" if category == "normalisation" else category


def _one_of(label: str, key: str, value: Any, allowed: Sequence[str]) -> str | None:
    if value is not None and value not in allowed:
        raise _wrong(label, f"{key} {value!r} is not one of {', '.join(allowed)}")
    return None if value is None else str(value)


def _text(label: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(label, f"{key!r} is not a string")
    return value


def _wrong(label: str, what: str) -> InputError:
    return InputError(f"{label}: {what}", hint=_FORMAT_HINT)
