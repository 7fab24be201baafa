"""Modules that are imported when they are first used, so that commands start fast.

    if TYPE_CHECKING:
        import polars as pl
    else:
        pl = lazy("polars")

Type checkers and the import contracts see an ordinary import. This is the only way to defer one:
an import within a function needs a reason why this does not fit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def lazy(name: str, within: Callable[[], AbstractContextManager[None]] = nullcontext) -> Any:
    """Return a stand-in for a module, which is imported when one of its names is first used.

    Args:
        name: The full name of the module. Whether it exists is found out on first use.
        within: Makes the context in which it is imported.
    """
    return _Lazy(name, within)


class _Lazy:
    """Threads may share it: the import system lets only one of them run the module."""

    __slots__ = ("_module", "_name", "_within")

    def __init__(self, name: str, within: Callable[[], AbstractContextManager[None]]) -> None:
        self._name = name
        self._within = within
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            with self._within():
                self._module = importlib.import_module(self._name)
        return getattr(self._module, name)

    def __repr__(self) -> str:
        return f"<lazy module {self._name!r}>"
