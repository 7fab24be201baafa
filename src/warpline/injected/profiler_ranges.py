"""Ranges for the steps of optimizers and the waits for batches of DataLoaders.

PyTorch marks both with its `record_function`, for its own profilers, by names such as
Optimizer.step#AdamW.step and enumerate(DataLoader)#CLASS.__next__. These become ranges. So every
class of optimizers and of DataLoaders has them, and compiled code, which leaves `record_function`
out, is as without us.
"""

from __future__ import annotations

import sys
from typing import Any

from .context import Context
from .wrapping import Wrapping, unnoticed

DOMAIN = "torch"

_STEP = "Optimizer.step#"
_PREFIXES = {"optimizer": "Optimizer.", "dataloader": "enumerate(DataLoader)#"}

_wrapping = Wrapping()


def start(context: Context) -> None:
    """Record these ranges from now on."""
    torch = sys.modules["torch"]
    ranges = _Ranges(context, torch)
    marks = torch.autograd.profiler.record_function
    _wrapping.replace(marks, "__enter__", ranges.enter)
    _wrapping.replace(marks, "__exit__", ranges.leave)


def stop() -> None:
    """Record no more of them."""
    _wrapping.restore()


class _Ranges:
    """What `record_function` marks, as ranges, if its name has one of the prefixes asked for."""

    def __init__(self, context: Context, torch: Any) -> None:
        self._agent = context.agent
        self._step_ends = context.step_ends
        self._tell = unnoticed(context.guarded("optimizer", self._tell_of_step))
        self._prefixes = tuple(_PREFIXES[word] for word in _PREFIXES if word in context.asked)
        self._handles: dict[str, int] = {}
        # Where operators are NVTX ranges, these marks are, too.
        own = torch._C  # noqa: SLF001
        with_operators = {"autograd-nvtx", "autograd-shapes-nvtx"} & context.asked
        self._kind_now = getattr(own._autograd, "_profiler_type", None)  # noqa: SLF001
        kinds = getattr(own._profiler, "ActiveProfilerType", None)  # noqa: SLF001
        self._doubling = kinds.NVTX if with_operators and kinds else None

    def enter(self, original: Any) -> Any:
        """Return what replaces `record_function.__enter__`."""
        push, prefixes = unnoticed(self._push), self._prefixes

        def __enter__(self_: Any) -> Any:  # noqa: N807
            name = self_.name
            if isinstance(name, str) and name.startswith(prefixes):
                self_._warpline_range = push(name)  # noqa: SLF001
            return original(self_)

        return __enter__

    def leave(self, original: Any) -> Any:
        """Return what replaces `record_function.__exit__`."""

        def __exit__(self_: Any, *error: Any) -> Any:  # noqa: N807
            try:
                return original(self_, *error)
            finally:
                handle = vars(self_).pop("_warpline_range", 0)
                if handle:
                    self._agent.pop(handle, -1)
                if self._step_ends and str(self_.name).startswith(_STEP):
                    self._tell()

        return __exit__

    def _tell_of_step(self) -> None:
        for step_end in self._step_ends:
            step_end()

    def _push(self, name: str) -> int:
        """Open a range and return its handle; 0 for none.

        Also while recording pauses: it may resume with the range, which counts as a step.
        """
        if self._doubling is not None and self._kind_now and self._kind_now() == self._doubling:
            return 0
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._agent.name(DOMAIN, name)
        self._agent.push(handle, -1)
        return handle
