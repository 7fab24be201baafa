"""Which items of two runs correspond: by launch shape, name, base name, or place in the step."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from warpline.result.profile import OF_CPU, ItemName

_LONGEST = 4096  # characters of a name that are looked at: templates make names of many kB
# How demanglers write a constant, such as ``(int)4`` for ``4``, and a lambda.
_CAST = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long)\)(?=-?\d)")
_LAMBDA = re.compile(r"\[(lambda[^\[\]]*?) ?\(instance (\d+)\)\]")

Key = Callable[[ItemName, float], Hashable]


class Match(NamedTuple):
    """Items that correspond.

    Attributes:
        before: Places of items; empty if the others are new.
        after: Places of items; empty if the others are gone.
        matched_by: The level on which they correspond; empty without a counterpart.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    matched_by: str


def without_parameters(name: str) -> str:
    """Return a demangled name without return type and parameters: ``f<T>`` of ``void f<T>(T)``.

    A name without parameters is returned unchanged.
    """
    head = _outside(name[:_LONGEST], "(", ")")
    return head.removeprefix("void ").strip() or name


def normalized(name: str) -> str:
    """Return a demangled name as other demanglers write it: without casts, spaces and parameters.

    Profilers demangle with different libraries: ``f<(int)4>`` and ``f<4>`` are one function, and so
    are ``(anonymous namespace)::f`` and ``<unnamed>::f``.
    """
    plain = name[:_LONGEST].replace("(anonymous namespace)", "<unnamed>")
    plain = _LAMBDA.sub(r"{\1#\2}", _CAST.sub("", plain))
    return without_parameters(plain).replace(" ", "")


def base_name(name: str) -> str:
    """Return a demangled name without parameters, template arguments and namespaces.

    ``gemm`` of ``void ns::gemm<float, 4>(float*)``. Names that are not C++ stay as they are.
    """
    bare = without_parameters(name)
    return _outside(bare, "<", ">").split("::")[-1].split(" ")[-1] or bare


def _outside(name: str, opening: str, closing: str) -> str:
    """Return the parts of a name outside of one kind of brackets, at least 1 character."""
    depth, kept = 0, []
    for char in name:
        if char == opening:
            depth += 1
        elif char == closing:
            depth = max(depth - 1, 0)
        elif not depth:
            kept.append(char)
    return "".join(kept) or name


class Listed(NamedTuple):
    """The items of one run.

    Attributes:
        names: What each item is.
        executions: Number per step of each.
        position: When each runs in a step.
    """

    names: Sequence[ItemName]
    executions: Sequence[float]
    position: Sequence[float]

    def in_order(self) -> list[int]:
        """Return the places of the items by position."""
        return sorted(range(len(self.names)), key=lambda place: (self.position[place], place))


def match(before: Listed, after: Listed) -> list[Match]:
    """Return which items correspond; each item is in exactly one match.

    Args:
        before: The items of one run.
        after: The items of the other run.

    Items are matched on five levels, each for what the levels before left: by name and shape; by
    name, where one item may split into several shapes or several merge into one; by name without
    parameters; without template arguments, if the category is the same, first with the same shape
    and number of executions; and by position, between the same matched neighbors and with the same
    category. What is left is gone or new.
    """
    left, right = before.in_order(), after.in_order()
    matches: list[Match] = []
    for level, key, divides in _LEVELS:
        found = _by_key(before, after, left, right, key, divides=divides)
        matches += [Match(old, new, level) for old, new in found]
        used = {place for old, _ in found for place in old}
        left = [place for place in left if place not in used]
        used = {place for _, new in found for place in new}
        right = [place for place in right if place not in used]
    placed = _by_position(before, after, left, right, matches)
    matches += placed
    gone = set(left) - {place for item in placed for place in item.before}
    new = set(right) - {place for item in placed for place in item.after}
    matches += [Match((place,), (), "") for place in left if place in gone]
    matches += [Match((), (place,), "") for place in right if place in new]
    return matches


_LEVELS: tuple[tuple[str, Key, bool], ...] = (
    ("shape", lambda item, _: (item.kind, item.name, item.shape), False),
    ("name", lambda item, _: (item.kind, item.name), True),
    ("signature", lambda item, _: (item.kind, normalized(item.name), item.shape), False),
    ("signature", lambda item, _: (item.kind, normalized(item.name)), True),
    ("base", lambda item, number: (*_base(item), item.shape, round(number, 1)), False),
    ("base", lambda item, number: (*_base(item), round(number, 1)), False),
    ("base", lambda item, _: _base(item), False),
)


def _base(item: ItemName) -> tuple[str, str, str]:
    return item.kind, item.category, base_name(item.name)


def _by_key(
    before: Listed,
    after: Listed,
    left: Sequence[int],
    right: Sequence[int],
    key: Key,
    *,
    divides: bool,
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return pairs of items with the same key, in order; one with several if `divides`."""
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for place in left:
        groups.setdefault(key(before.names[place], before.executions[place]), ([], []))[0].append(
            place
        )
    for place in right:
        groups.setdefault(key(after.names[place], after.executions[place]), ([], []))[1].append(
            place
        )
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for old, new in groups.values():
        if divides and old and new and 1 in (len(old), len(new)):
            found.append((tuple(old), tuple(new)))
        else:
            found += [((a,), (b,)) for a, b in zip(old, new, strict=False)]
    return found


def _by_position(
    before: Listed,
    after: Listed,
    left: Sequence[int],
    right: Sequence[int],
    matches: Sequence[Match],
) -> list[Match]:
    """Match what lies between the same matched neighbors and has the same category."""
    if not left or not right:
        return []
    of_left = {place: number for number, item in enumerate(matches) for place in item.before}
    of_right = {place: number for number, item in enumerate(matches) for place in item.after}
    old = _between(before, of_left)
    new = _between(after, of_right)
    found = []
    for gap, places in old.items():
        others = new.get(gap, [])
        if others and 1 in (len(places), len(others)):
            found.append(Match(tuple(places), tuple(others), "position"))
    return found


def _between(listed: Listed, number_of: dict[int, int]) -> dict[Hashable, list[int]]:
    """Return the unmatched GPU work by its neighbors' matches, kind and category."""
    order = [place for place in listed.in_order() if listed.names[place].kind not in OF_CPU]
    follower, following = -1, [-1] * len(order)
    for at in reversed(range(len(order))):
        following[at] = follower
        follower = number_of.get(order[at], follower)
    gaps: dict[Hashable, list[int]] = {}
    leader = -1
    for at, place in enumerate(order):
        if place in number_of:
            leader = number_of[place]
            continue
        item = listed.names[place]
        gaps.setdefault((leader, following[at], item.kind, item.category), []).append(place)
    return gaps
