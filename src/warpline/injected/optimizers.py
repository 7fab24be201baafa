"""A range for each step of an optimizer, and for each call of its zero_grad.

The names are those of PyTorch's own profiler: Optimizer.step#AdamW.step. A step with a closure
contains what the closure calls.
"""

from __future__ import annotations

import sys
from typing import Any

from .context import Context
from .named_ranges import NamedRanges
from .wrapping import Wrapping

_wrapping = Wrapping()


def start(context: Context) -> None:
    """Record the steps of all optimizers from now on."""
    base = sys.modules["torch"].optim.Optimizer
    ranges = NamedRanges(context)
    wrapped: set[type] = set()

    def see(kind: type) -> None:
        """Have the steps of a class recorded, by the class in which they are defined."""
        for owner in kind.__mro__:
            if owner not in wrapped and owner is not base and callable(vars(owner).get("step")):
                wrapped.add(owner)
                _wrapping.replace(owner, "step", ranges.wrapper("Optimizer.step", "step"))

    def seeing(original: Any) -> Any:
        def patch_step_function(self: Any) -> None:
            original(self)
            try:
                see(type(self))
            except Exception as error:  # noqa: BLE001 - noted; the program must not notice
                context.note_error("optimizers", error)

        return patch_step_function

    for kind in _subclasses(base):
        see(kind)
    if "_patch_step_function" in vars(base):  # called for each optimizer that is made
        _wrapping.replace(base, "_patch_step_function", seeing)
    _wrapping.replace(base, "zero_grad", ranges.wrapper("Optimizer.zero_grad", "zero_grad"))


def stop() -> None:
    """Record no more steps."""
    _wrapping.restore()


def _subclasses(kind: type) -> list[type]:
    found: list[type] = [*type.__subclasses__(kind)]
    return found + [deeper for inner in found for deeper in _subclasses(inner)]
