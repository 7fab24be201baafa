"""Named ranges and marks for profilers, with NVTX.

    import warpline

    with warpline.annotate("load batch", color="green"):
        ...

    @warpline.annotate()                       # the range has the function's name
    def forward(batch): ...

    warpline.range_push("step"); ...; warpline.range_pop()
    warpline.mark("checkpoint written")

Warpline, Nsight Systems and every other NVTX profiler record them. Without a profiler, the overhead
is negligible, and NVTX is not even loaded. NVTX_DISABLE=1 turns them off.

The module is callable: ``warpline.annotate("x")`` is ``warpline.annotate.annotate("x")``.
``python -m warpline.annotate script.py`` runs a program with a range for each of its functions.
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

# Annotations without a payload, by their arguments. NVTX keeps every name forever, but this table
# is bounded.
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
    """Create a range, for ``with``, ``async with`` or as a decorator.

    See `Annotation` for what each of them records.

    Args:
        message: Name of the range; None: the qualified name of the decorated function.
        color: A name such as "red", or 0xAARRGGBB.
        domain: Name of the NVTX domain; None: the default domain.
        category: Name or number of a category.
        payload: A value to record with the range: a number or, with numpy, a list or an array.

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
    """Open a range on this thread, closed by `range_pop` in the same domain. Ranges nest."""
    if LISTENER.silent:
        return
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    (found or annotate(message, color, domain, category, payload)).push()


def range_pop(domain: str | None = None) -> None:
    """Close the innermost open range of this thread in the domain."""
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
    """Open a range that does not have to nest and that any thread can close.

    Returns:
        A handle for `end_range`; None without a profiler.
    """
    if LISTENER.silent:
        return None
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    return (found or annotate(message, color, domain, category, payload)).start()


def end_range(handle: RangeHandle | None) -> None:
    """Close a range opened by `start_range`."""
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
    """Record a mark: a named point in time."""
    if LISTENER.silent:
        return
    found = _annotations.get((message, color, domain, category)) if payload is None else None
    (found or annotate(message, color, domain, category, payload)).mark()


class _CallableModule(types.ModuleType):
    """Makes ``warpline.annotate`` both a module and a function, in any import order."""

    __call__ = staticmethod(cast("Callable[..., Any]", annotate))


sys.modules[__name__].__class__ = _CallableModule
