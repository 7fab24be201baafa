"""Functions of the program's classes, replaced by ones that record."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class Wrapping:
    """Replaces functions of classes, and gives them back.

    Dynamo does not look at the frame of a wrapper, only at those of what it calls.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[type, str, Any, Any]] = []

    def replace(self, owner: type, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function in the dictionary of a class.

        Args:
            owner: The class.
            name: The name of the function.
            make: Makes the wrapper of the original function.
        """
        original = vars(owner)[name]
        wrapper: Any = functools.wraps(original)(make(original))
        hide_frame(wrapper)
        setattr(owner, name, wrapper)
        self._replaced.append((owner, name, original, wrapper))

    def restore(self) -> None:
        """Give all functions back, but for those that somebody else has replaced meanwhile."""
        while self._replaced:
            owner, name, original, wrapper = self._replaced.pop()
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)


def hide_frame(function: Any) -> None:
    """Have Dynamo leave a function's own frame alone, but not those that it calls.

    torch._dynamo has a function for it, but takes a second to import.
    """
    frames = _eval_frame()
    if hasattr(frames, "skip_code"):  # before PyTorch 2.7
        frames.skip_code(function.__code__)
        return
    strategy = frames._FrameExecStrategy(  # noqa: SLF001
        frames._FrameAction.SKIP,  # noqa: SLF001
        frames._FrameAction.DEFAULT,  # noqa: SLF001
    )
    frames.set_code_exec_strategy(function.__code__, strategy)


def without_dynamo(function: Any) -> Any:
    """Return a function that does the same, and that Dynamo does not look at, nor at what it calls.

    For functions of ours that wrappers call: compiled code may be running around them.
    """
    set_callback = _eval_frame().set_eval_frame

    def call(*args: Any) -> Any:
        callback = set_callback(None)
        try:
            return function(*args)
        finally:
            set_callback(callback)

    hide_frame(call)
    return call


def _eval_frame() -> Any:
    return sys.modules["torch"]._C._dynamo.eval_frame  # noqa: SLF001
