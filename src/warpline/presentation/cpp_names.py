"""Names of C++ as trees: paths of names with template arguments and parameters."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.lazy import lazy_pattern

_TOKEN = lazy_pattern(
    r"(?:<unnamed>|\(anonymous namespace\))::|\s*+const(?=::)|\s++|::"
    r"|operator ?\(\)|[<>(){}\[\],]|[^\s<>(){}\[\],:]++|:"
)
_IGNORED = lazy_pattern(r"<unnamed>|\(anonymous|\s*const$")
_CLOSING = {"<": ">", "(": ")", "{": "}", "[": "]"}
_QUALIFIER = lazy_pattern(r"const[*&]*|volatile|__restrict__|[*&]+")
_DEEPEST = 60  # no real name has so deep brackets


class Name:
    """A name in a path.

    Attributes:
        word: The name without its brackets; empty for a lambda.
        arguments: Template arguments.
        parameters: Parameters of a function or a lambda.
    """

    __slots__ = ("arguments", "parameters", "word")

    def __init__(self) -> None:
        self.word = ""
        self.arguments: list[Item] = []
        self.parameters: list[Item] = []

    @property
    def is_lambda(self) -> bool:
        """Whether it is a lambda or a call operator, which say nothing by themselves."""
        return not self.word or self.word.startswith("operator")


class Item:
    """A whole name, a template argument or a parameter.

    Attributes:
        paths: The paths that spaces separate, such as a return type and a function.
    """

    __slots__ = ("paths",)

    def __init__(self) -> None:
        self.paths: list[list[Name]] = []

    @property
    def types(self) -> list[list[Name]]:
        """The paths that are no qualifiers such as ``const`` and ``*``."""
        return [
            path for path in self.paths if len(path) > 1 or not _QUALIFIER.fullmatch(path[0].word)
        ]

    @property
    def is_pointer(self) -> bool:
        """Whether it is a pointer or a reference."""
        return any(path[-1].word.endswith(("*", "&")) for path in self.paths)


def parse(text: str) -> Item | None:
    """Return the tree of a name; None if its brackets do not match or are nested too deep."""
    parts = (found.group() for found in _TOKEN.finditer(text))
    try:
        items = _items((part for part in parts if not _IGNORED.match(part)), "", 0)
    except ValueError:
        return None
    return items[0] if len(items) == 1 else None


def _items(parts: Iterator[str], closing: str, depth: int) -> list[Item]:
    """Return the items up to a closing bracket, or to the end for the empty string."""
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    items = [Item()]
    before = ""  # the space or double colon before a part
    for part in parts:
        if part == closing:
            break
        if part == ",":
            items.append(Item())
        elif part == "::" or part.isspace():
            before = before if before == "::" else part
            continue
        elif part != ">":  # as in a condition or "->"
            inside = _items(parts, _CLOSING[part], depth + 1) if part in _CLOSING else []
            _take(items[-1], part, inside, before)
        before = ""
    else:
        if closing:
            raise ValueError("a bracket is not closed")
    return items if items[0].paths or len(items) > 1 else []


def _take(item: Item, part: str, inside: list[Item], before: str) -> None:
    """Add a word, or a bracket with all inside it, to an item."""
    if part in _CLOSING.values():
        raise ValueError("brackets do not match")
    if part == "(" and (before.isspace() or not item.paths):
        return  # a cast, or "(instance 1)" of a lambda
    if before == "::" and item.paths:
        item.paths[-1].append(Name())
    elif not item.paths or (before and part not in {"<", "("}):
        item.paths.append([Name()])
    name = item.paths[-1][-1]
    if part == "<":
        name.arguments = inside
    elif part == "(":
        name.parameters = inside
    elif part in _CLOSING:  # a lambda in braces or brackets
        name.parameters = inside[0].paths[0][0].parameters if inside and inside[0].paths else []
    else:
        name.word += part
