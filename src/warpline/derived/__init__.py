"""Tables and arrays computed from a trace and shared by several analyses.

A function decorated with `derived` is computed once per trace and arguments. The result is cached
in `Trace.memo` for the lifetime of the trace. Its arrays must not be modified.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from warpline.trace import Trace

P = ParamSpec("P")
T = TypeVar("T")


def derived(
    compute: Callable[Concatenate[Trace, P], T],
) -> Callable[Concatenate[Trace, P], T]:
    """Compute the decorated function once per trace and arguments. Arguments must be hashable."""

    @wraps(compute)
    def shared(trace: Trace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key: Hashable = (compute, args, tuple(sorted(kwargs.items())))
        if key not in trace.memo:
            trace.memo[key] = compute(trace, *args, **kwargs)
        return cast("T", trace.memo[key])

    return shared
