"""Names for what a program does: ranges and marks that profilers show, by NVTX.

    import warpline

    with warpline.annotate("load batch", color="green"):
        ...

    @warpline.annotate()                       # named as the function
    def forward(batch): ...

    warpline.range_push("step"); ...; warpline.range_pop()
    warpline.mark("checkpoint written")

Warpline, Nsight Systems and every other tool that listens to NVTX record them. Without one they
cost next to nothing, and NVTX is not even loaded. NVTX_DISABLE=1 turns them off.

The module can be called: ``warpline.annotate("x")`` is ``warpline.annotate.annotate("x")``.
``python -m warpline.annotate script.py`` runs a program with a range for every function of it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from warpline.annotate.annotation import Annotation, Color, RangeHandle
from warpline.annotate.listener import LISTENER

__all__ = [
    "Annotation",
    "RangeHandle",
    "annotate",
    "end_range",
    "mark",
    "range_pop",
    "range_push",
    "start_range",
]

F = TypeVar("F", bound=Callable[..., Any])

# Annotations without a payload, by their arguments. NVTX itself keeps every name for ever; this
# table does not grow with them.
_MOST_ANNOTATIONS = 8192
_annotations: dict[tuple[Any, ...], Annotation] = {}


@overload
def annotate(message: F) -> F: ...


@overload
def annotate(
    message: str | None = None,
    color: Color | None = None,
    domain: str | None = None,
    category: str | int | None = None,
    payload: Any = None,
) -> Annotation: ...


def annotate(
    message: Any = None,
    color: Color | None = None,
    domain: str | None = None,
    category: str | int | None = None,
    payload: Any = None,
) -> Any:
    """Name a piece of a program, by ``with``, by ``async with`` or as a decorator.

    `Annotation` says what each of them records.

    Args:
        message: Name of the range; a decorated function's qualified name if None.
        color: A name such as "red", or 0xAARRGGBB.
        domain: Name of the NVTX domain; the default domain if None.
        category: A category's name or number.
        payload: A value to record beside the range; a number, or with numpy a list or an array.

    Raises:
        TypeError: The name is not a str.
    """
    if payload is None:
        key = (message, color, domain, category)
        found = _annotations.get(key)
        if found is not None:
            return found
    if callable(message) or isinstance(message, classmethod):
        return Annotation()(message)  # @warpline.annotate, without parentheses
    made = Annotation(message, color, domain, category, payload)
    if payload is None:
        if len(_annotations) >= _MOST_ANNOTATIONS:
            _annotations.clear()
        _annotations[key] = made
    return made


def range_push(
    message: str,
    color: Color | None = None,
    domain: str | None = None,
    category: str | int | None = None,
    payload: Any = None,
) -> None:
    """Open a range on this thread, until `range_pop` in the same domain. Ranges nest."""
    if LISTENER.silent:
        return
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    (found or annotate(message, color, domain, category, payload)).push()


def range_pop(domain: str | None = None) -> None:
    """Close the range that this thread opened last in the domain."""
    known = LISTENER.domains.get(domain)
    if known is None and LISTENER.listens():
        known = LISTENER.domain(domain)
    if known is not None:
        known.pop()


def start_range(
    message: str,
    color: Color | None = None,
    domain: str | None = None,
    category: str | int | None = None,
    payload: Any = None,
) -> RangeHandle | None:
    """Open a range that need not nest and that any thread may close.

    Returns:
        What `end_range` takes; None if nothing listens.
    """
    if LISTENER.silent:
        return None
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    return (found or annotate(message, color, domain, category, payload)).start()


def end_range(handle: RangeHandle | None) -> None:
    """Close a range that `start_range` opened."""
    if handle is not None:
        close, number = handle
        close(number)


def mark(
    message: str,
    color: Color | None = None,
    domain: str | None = None,
    category: str | int | None = None,
    payload: Any = None,
) -> None:
    """Record an instant."""
    if LISTENER.silent:
        return
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    (found or annotate(message, color, domain, category, payload)).mark()


class _CallableModule(types.ModuleType):
    """Lets ``warpline.annotate`` be a module and a function, whatever was imported first."""

    __call__ = staticmethod(cast("Callable[..., Any]", annotate))


sys.modules[__name__].__class__ = _CallableModule
