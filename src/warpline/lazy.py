"""Modules that are imported when they are first used, so that commands start fast.

    if TYPE_CHECKING:
        import polars as pl
    else:
        pl = lazy("polars")

Type checkers and the import contracts see an ordinary import. An import within a function needs a
reason why this does not fit. A package whose names come from modules that few commands need:

    if TYPE_CHECKING:
        from warpline.result.rules import RULES, rule
    else:
        __getattr__ = lazy_names(__name__, {"rules": ("RULES", "rule")})

A regular expression that few commands match:

    _LOST = lazy_pattern(r"lost ([0-9]+) events")
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, AnyStr


def lazy(name: str, within: Callable[[], AbstractContextManager[None]] = nullcontext) -> Any:
    """Return a stand-in for a module, which is imported when one of its names is first used.

    Args:
        name: The full name of the module. Whether it exists is found out on first use.
        within: Makes the context in which it is imported.
    """
    return _Lazy(name, within)


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports a module when one of its names is used.

    Args:
        package: The full name of the package.
        modules: Modules of the package -> the names that the package takes from them.
    """
    origins = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{origins[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def lazy_pattern(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return a stand-in for a regular expression, which is compiled when it is first used."""
    stand_in: Any = _LazyPattern(pattern, flags)
    return stand_in  # type: ignore[no-any-return] # it has all attributes of one


class _LazyPattern:
    def __init__(self, pattern: Any, flags: re.RegexFlag) -> None:
        self._arguments = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._arguments), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<lazy pattern {self._arguments[0]!r}>"


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
