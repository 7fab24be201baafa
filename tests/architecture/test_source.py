"""Rules about the text of the source that no linter checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

# Where an unknown error may be caught: plugin load, the analysis runner, the command line, the
# process of benchmarks, whose libraries raise errors of any kind, and what is within programs.
BORDERS = {
    "plugins.py",
    "documents/failures.py",
    "cli/__init__.py",
    "bench/worker.py",
    "injected/context.py",
    "injected/startup/sitecustomize.py",
    "injected/watch_import.py",
    "mcp/tools.py",
}

SOURCE = Path(__file__).parents[2] / "src" / "warpline"
MODULES = sorted(SOURCE.rglob("*.py"))


def module_id(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def public_definitions(
    tree: ast.Module,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the public functions, classes and methods of a module."""
    scopes: list[ast.Module | ast.ClassDef] = [tree]
    while scopes:
        for node in scopes.pop().body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name.startswith("_") or is_overload(node):
                continue
            yield node
            if isinstance(node, ast.ClassDef):
                scopes.append(node)


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether this is one of several signatures of the function that comes after it."""
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler takes any error and does not end by raising it again."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"})
        for name in names
    )


def test_modules_are_documented() -> None:
    undocumented = []
    for path in MODULES:
        tree = parse(path)
        names = [node.name for node in public_definitions(tree) if not ast.get_docstring(node)]
        missing = ["the module", *names] if not ast.get_docstring(tree) else names
        undocumented += [f"{module_id(path)}: {name}" for name in missing]
    assert undocumented == []


def test_module_names_say_what_they_hold() -> None:
    parts = {path: set(path.relative_to(SOURCE).with_suffix("").parts) for path in MODULES}
    assert [path for path in MODULES if parts[path] & FORBIDDEN_NAMES] == []


def test_unknown_errors_are_caught_at_the_borders_only() -> None:
    found = [
        module_id(path)
        for path in MODULES
        if re.search(r"Exception|except\s*:", path.read_text(encoding="utf-8"))
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ExceptHandler) and swallows_everything(node)
    ]
    assert set(found) <= BORDERS
    assert len(found) == len(set(found)), "one handler at each border"
