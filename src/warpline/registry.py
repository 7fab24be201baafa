"""A collection of named items that rejects duplicates and suggests similar names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from warpline.errors import SchemaError, UsageError
from warpline.lazy import lazy

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")

T = TypeVar("T")


class Registry(Generic[T]):
    """Items by name, in order of registration.

    Args:
        kind: Kind of the items, for messages: "table", "reader", "format".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        self._aliases: dict[str, str] = {}

    def add(self, name: str, item: T, *, aliases: Iterable[str] = ()) -> None:
        """Add an item. Raises SchemaError if a name or alias is taken."""
        for taken in (name, *aliases):
            if taken in self._items or taken in self._aliases:
                raise SchemaError(f"two {self.kind}s are named {taken!r}")
        self._items[name] = item
        for alias in aliases:
            self._aliases[alias] = name

    def put_in_order(self, names: Sequence[str]) -> None:
        """Reorder the items of these names; the others follow as they were."""
        places = {name: place for place, name in enumerate(names)}
        last = len(places)
        self._items = dict(sorted(self._items.items(), key=lambda item: places.get(item[0], last)))
        self._aliases = dict(
            sorted(self._aliases.items(), key=lambda item: places.get(item[1], last))
        )

    def get(self, name: str) -> T:
        """Return the item of a name or alias. Raises UsageError if there is none."""
        found = self._items.get(self._aliases.get(name, name))
        if found is None:
            raise UsageError(f"unknown {self.kind} {name!r}", hint=self._suggest(name))
        return found

    def _suggest(self, name: str) -> str:
        known = [*self._items, *self._aliases]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        near = near or [known_name for known_name in known if name and name in known_name][:3]
        if near:
            return "did you mean " + " or ".join(dict.fromkeys(near)) + "?"
        return f"known {self.kind}s: " + ", ".join(self._items)

    def aliases(self) -> dict[str, str]:
        """Return the aliases, as alias -> name."""
        return dict(self._aliases)

    def names(self) -> list[str]:
        """Return the names, without aliases."""
        return list(self._items)

    def __contains__(self, name: str) -> bool:
        return name in self._items or name in self._aliases

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)
