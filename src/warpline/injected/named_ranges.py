"""Ranges around methods, named as PyTorch's own profiler names them: PREFIX#CLASS.METHOD."""

from __future__ import annotations

import sys
import threading
from typing import Any

from .context import Context

DOMAIN = "torch"


class NamedRanges:
    """Ranges of the domain `torch`, one around each call of a method of some objects.

    Args:
        context: Has the agent.
    """

    def __init__(self, context: Context) -> None:
        self._agent = context.agent
        self._handles: dict[tuple[str, str], int] = {}
        self._local = threading.local()
        # Operators as NVTX ranges bring these ranges, too, where they are on.
        autograd = sys.modules["torch"]._C._autograd  # noqa: SLF001
        self._profiler = getattr(autograd, "_profiler_type", None)
        kinds = getattr(autograd, "ActiveProfilerType", None)
        with_operators = {"autograd-nvtx", "autograd-shapes-nvtx"} & context.asked
        self._doubling = getattr(kinds, "NVTX", None) if with_operators else None

    def wrapper(self, prefix: str, method: str) -> Any:
        """Return what makes a wrapper of a method, for `Wrapping.replace`.

        Args:
            prefix: The beginning of the names.
            method: The name of the method.
        """

        def make(original: Any) -> Any:
            agent, local, handle_of = self._agent, self._local, self._handle

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                # Not again for the method of a base class.
                if not agent.is_recording() or getattr(local, method, None) is self:
                    return original(self, *args, **kwargs)
                handle = handle_of(prefix, method, type(self))
                outer = getattr(local, method, None)
                setattr(local, method, self)
                agent.push(handle, -1)
                try:
                    return original(self, *args, **kwargs)
                finally:
                    agent.pop(handle, -1)
                    setattr(local, method, outer)

            return call

        return make

    def _handle(self, prefix: str, method: str, kind: type) -> int:
        if (
            self._doubling is not None
            and self._profiler is not None
            and self._profiler() == self._doubling
        ):
            return 0  # no range
        key = prefix, kind.__name__
        if key not in self._handles:
            self._handles[key] = self._agent.name(DOMAIN, f"{prefix}#{kind.__name__}.{method}")
        return self._handles[key]
