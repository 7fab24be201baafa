"""Functions of the program's classes, replaced by ones that record."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class Wrapping:
    """Replaces functions of classes, and gives them back.

    Compiled code is as without us: Dynamo does not look at a wrapper's frame, and takes the
    original function where a program names the wrapper: nothing is compiled again for it.
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
        # Dynamo's mark; the original may be a wrapper of ours, too.
        wrapper._torchdynamo_inline = getattr(original, "_torchdynamo_inline", original)  # noqa: SLF001
        _hide_frame(wrapper)
        setattr(owner, name, wrapper)
        self._replaced.append((owner, name, original, wrapper))

    def restore(self) -> None:
        """Give all functions back, but for those that somebody else has replaced meanwhile."""
        while self._replaced:
            owner, name, original, wrapper = self._replaced.pop()
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)


def _hide_frame(wrapper: Any) -> None:
    """Have Dynamo leave a function's own frame alone, but not those that it calls."""
    dynamo = getattr(sys.modules["torch"]._C, "_dynamo", None)  # noqa: SLF001
    skip = getattr(getattr(dynamo, "eval_frame", None), "skip_code", None)
    if skip is not None:
        skip(wrapper.__code__)
