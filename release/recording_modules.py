"""The modules of Warpline that recording takes: those of the package warpline-agent.

They are found by following imports from the commands that record. An import that is deferred
(`warpline.lazy`, within a function, or a module started by its name) is followed only if the module
can be imported with the standard library alone, so reading, which takes numpy, is left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

COMMANDS = (
    *("profile", "launch", "start", "stop", "cancel", "status", "sessions", "dump", "finalize"),
    *("shutdown", "attach", "recover", "doctor"),
)
# Beside commands: what programs import, and files that programs are given by path.
ENTRIES = (
    *(f"warpline.cli.{name}" for name in COMMANDS),
    "warpline.__main__",
    "warpline.annotate",
    "warpline.annotate.__main__",
    "warpline.capture.in_process.profile",
)
WHOLE = ("warpline.injected",)  # found by path, in programs that know nothing of Warpline
# Imported where a program has them.
_PROGRAMS_OWN = {"torch", "nvtx"}


@dataclass
class _Imports:
    eager: set[str] = field(default_factory=set)
    deferred: set[str] = field(default_factory=set)


class Modules:
    """The modules of the package in a directory of sources, and their imports."""

    def __init__(self, sources: Path) -> None:
        self.paths: Mapping[str, Path] = dict(_modules(sources))
        self._names = {*self.paths}
        self._by_path = {name.rpartition(".")[2] for name in self.paths if _is_whole(name)}
        self._needs = cache(self._find_needs)
        self._imports = cache(self._read)

    def recording(self) -> list[str]:
        """Return the modules that recording takes, sorted."""
        entries = {name for name in self.paths if _is_whole(name)}
        found: set[str] = set()
        waiting = sorted({*ENTRIES, *entries})
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name not in self.paths:
                raise LookupError(f"recording imports {name}, which is not Python's own")
            found.add(name)
            imports = self._imports(name)
            waiting += [*self._packages(name), *imports.eager]
            named = [each for each in imports.deferred if not self.needs(each)]
            started = [f"{each}.__main__" for each in named]  # ``python -m`` a package
            waiting += [*named, *(each for each in started if each in self.paths)]
        return sorted(found)

    def needs(self, name: str) -> frozenset[str]:
        """Return the packages of others without which a module cannot be imported."""
        return self._needs(name)

    def _find_needs(self, name: str) -> frozenset[str]:
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each not in self.paths:
                found.add(each)
                continue
            waiting += [*self._imports(each).eager, *self._packages(each)]
        return frozenset(found)

    def _read(self, name: str) -> _Imports:
        """Return what a module imports: modules of this package, and packages of others."""
        found = _Imports()
        tree = ast.parse(self.paths[name].read_text(encoding="utf-8"))
        is_package = self.paths[name].name == "__init__.py"
        for node, is_deferred in _statements(tree):
            if isinstance(node, ast.Constant):
                text = str(node.value)
                found.deferred |= {text, f"{name}.{text}" if is_package else text} & self._names
                continue
            targets = found.deferred if is_deferred else found.eager
            for each in _imported(node):
                known = self._known(each)
                if known is not None and known != name:
                    targets.add(known)
        found.deferred -= {name, *found.eager}
        return found

    def _packages(self, name: str) -> list[str]:
        """Return the packages that a module is in, which Python imports first."""
        parts = name.split(".")
        names = [".".join(parts[:count]) for count in range(1, len(parts))]
        return [each for each in names if each in self.paths]  # `injected/startup` is none

    def _known(self, name: str) -> str | None:
        """Return the module in a dotted name, or another's package; None for Python's own."""
        first = name.partition(".")[0]
        if first != "warpline":
            is_known = first in sys.stdlib_module_names or first in self._by_path
            return None if is_known or first in _PROGRAMS_OWN else first
        while name not in self.paths:
            name = name.rpartition(".")[0]
        return name


def _modules(sources: Path) -> Iterator[tuple[str, Path]]:
    for path in (sources / "warpline").rglob("*.py"):
        parts = path.relative_to(sources).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _is_whole(name: str) -> bool:
    return any(name == whole or name.startswith(f"{whole}.") for whole in WHOLE)


def _statements(tree: ast.AST, *, is_deferred: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield each node, and whether it runs later than the import; not what only types need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _is_for_types(node.test):
            for each in node.orelse:
                yield each, is_deferred
                yield from _statements(each, is_deferred=is_deferred)
            continue
        yield node, is_deferred
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _statements(node, is_deferred=is_deferred or is_function)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
