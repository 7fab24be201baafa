"""Tables and arrays computed from a trace and shared by several analyses.

A function decorated with `derived` is computed once per trace, or once per run if it depends on the
choice of steps. The result is cached in `Trace.memo` for the lifetime of the trace. Its arrays must
not be modified.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from warpline.trace import Run, Trace

Subject = TypeVar("Subject", Trace, Run)
P = ParamSpec("P")
T = TypeVar("T")


def derived(
    compute: Callable[Concatenate[Subject, P], T],
) -> Callable[Concatenate[Subject, P], T]:
    """Compute the decorated function once per trace or run, and arguments. These must be hashable.

    The function takes a Run if its result depends on the choice of steps, a Trace otherwise.
    """

    @wraps(compute)
    def shared(subject: Subject, /, *args: P.args, **kwargs: P.kwargs) -> T:
        trace, steps = _parts(subject)
        key: Hashable = (compute, steps, args, tuple(sorted(kwargs.items())))
        if key not in trace.memo:
            trace.memo[key] = compute(subject, *args, **kwargs)
        return cast("T", trace.memo[key])

    return shared


def is_computed(trace: Trace, function: Callable[[Trace], object]) -> bool:
    """Return whether the result of a derived function without arguments is in the cache."""
    return (getattr(function, "__wrapped__", function), None, (), ()) in trace.memo


def forget(trace: Trace, *functions: Callable[..., object]) -> None:
    """Drop the results of derived functions from the cache of a trace, to free their memory.

    They are computed again if they are needed again.
    """
    dropped = {getattr(function, "__wrapped__", function) for function in functions}
    for key in [key for key in trace.memo if key[0] in dropped]:
        del trace.memo[key]


def forget_others(trace: Trace, *functions: Callable[..., object]) -> None:
    """Drop the results of all derived functions but these from the cache of a trace."""
    kept = {getattr(function, "__wrapped__", function) for function in functions}
    for key in [key for key in trace.memo if key[0] not in kept]:
        del trace.memo[key]


def _parts(subject: Trace | Run) -> tuple[Trace, str | None]:
    """Return the trace, which has the cache, and the choice of steps, which is part of the key."""
    return (subject.trace, subject.steps) if isinstance(subject, Run) else (subject, None)
