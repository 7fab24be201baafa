"""Calls functions when the program has imported a module.

Modules that are waited for get their own loader, but for its `exec_module`, until they are there.
Nothing is imported earlier, or twice, and an import that fails does so as without us.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # most programs never need more than this file
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_waiting: dict[str, list[Callable[[], None]]] = {}


def call_after_import(name: str, function: Callable[[], None]) -> None:
    """Call a function once a module is imported; now, if it has been. Its errors are swallowed."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        _call(function)
        return
    _waiting.setdefault(name, []).append(function)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def forget(function: Callable[[], None]) -> None:
    """Do not call a function any more."""
    for name in list(_waiting):
        _waiting[name] = [kept for kept in _waiting[name] if kept != function]
        if not _waiting[name]:
            del _waiting[name]
    _leave()


class _Finder:
    """Finds what the finders after it find, and sees to the end of its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                _watch(name, spec.loader)
                return spec
        return None


_FINDER = _Finder()


def _watch(name: str, loader: Any) -> None:
    """Have the functions called at the end of `loader.exec_module`."""
    if isinstance(loader, type) or not hasattr(loader, "exec_module"):
        return
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        original(module)
        for function in _waiting.pop(name, ()):
            _call(function)
        _leave()

    try:  # noqa: SIM105 - contextlib is not to be loaded
        loader.exec_module = exec_module
    except AttributeError:  # it has no room for it
        pass


def _call(function: Callable[[], None]) -> None:
    try:
        function()
    except Exception:  # noqa: BLE001, S110 - the program's import has succeeded
        pass


def _leave() -> None:
    if not _waiting and _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
