"""Functions of the program's classes and modules, replaced by ones that record."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class Wrapping:
    """Replaces functions of classes and modules, and gives them back.

    Dynamo does not look at the frame of a wrapper, only at those of what it calls.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function in the dictionary of a class or module.

        Args:
            owner: The class or module.
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


def unnoticed(function: Any) -> Any:
    """Return a function that does the same, and of which PyTorch's tracers take no note.

    For functions of ours that wrappers call: compiled code may be running around them, torch.jit
    may be tracing, or a torch function mode may be on.
    """
    own = sys.modules["torch"]._C  # noqa: SLF001
    set_callback = _eval_frame().set_eval_frame
    get_tracing, set_tracing = own._get_tracing_state, own._set_tracing_state  # noqa: SLF001

    def call(*args: Any) -> Any:
        callback = set_callback(None)
        tracing = get_tracing()
        if tracing is not None:
            set_tracing(None)
        try:
            with own.DisableTorchFunction():
                return function(*args)
        finally:
            if tracing is not None:
                set_tracing(tracing)
            set_callback(callback)

    hide_frame(call)
    return call


def _eval_frame() -> Any:
    return sys.modules["torch"]._C._dynamo.eval_frame  # noqa: SLF001
