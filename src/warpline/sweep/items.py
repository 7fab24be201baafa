"""How many items a step processes: a product of parameters, such as ``{batch}*{context}``."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence

from warpline.errors import UsageError
from warpline.sweep.points import Parameter, Point

_HINT = "use a product of parameters and numbers: --items '{batch}*{context}'"
_OPERATIONS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
}
_LONGEST = 200  # characters


def parsed(text: str) -> ast.expr:
    """Return the expression of ``--items``.

    Raises:
        UsageError: It is not one of parameters, numbers, ``+ - * /`` and parentheses.
    """
    try:
        found = ast.parse(text.replace("{", "(").replace("}", ")").strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise UsageError(f"--items {text}: not an expression", hint=_HINT) from None
    if len(text) > _LONGEST or not all(map(_is_allowed, ast.walk(found))):
        raise UsageError(f"--items {text}: expected parameters, numbers, + - * /", hint=_HINT)
    return found


def check(text: str, parameters: Sequence[Parameter]) -> None:
    """Check that an expression has parameters with numbers only.

    Raises:
        UsageError: It has another name.
    """
    numeric = {item.name for item in parameters if item.is_numeric}
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Name) and node.id not in numeric:
            what = "has values that are no numbers" if node.id in _names(parameters) else ""
            raise UsageError(
                f"--items {text}: {node.id} {what or 'is not varied'}",
                hint=f"use {', '.join(sorted(numeric)) or 'a number'}",
            )


def count(text: str, point: Point) -> float | None:
    """Return how many items a step processes at a point; None if that cannot be computed."""
    try:
        found = _value(parsed(text), point)
    except (ZeroDivisionError, OverflowError, KeyError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _names(parameters: Sequence[Parameter]) -> set[str]:
    return {item.name for item in parameters}


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    is_operation = isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS
    return is_operation or isinstance(node, (ast.Name, ast.Load, *_OPERATIONS))


def _value(node: ast.expr, point: Point) -> float:
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left, point), _value(node.right, point))
    if isinstance(node, ast.Name):
        return float(point[node.id])
    assert isinstance(node, ast.Constant)
    return float(node.value)  # type: ignore[arg-type] # see _is_allowed
