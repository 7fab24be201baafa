"""How results appear in a shell (`print`) and in a notebook.

Renderers belong to a layer above this one, so `warpline.api` sets the functions that are called
here. Without it, for example in a test of an analysis, results show as their `repr`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Display:
    """The functions that turn a Result, Document, Diagnosis or Finding into text or HTML."""

    text: Callable[[Any], str] | None = None
    html: Callable[[Any], str] | None = None


DISPLAY = Display()


class Displayed:
    """Base of results: `print` shows what the command line prints, and notebooks show HTML."""

    def __str__(self) -> str:
        return repr(self) if DISPLAY.text is None else DISPLAY.text(self)

    def _repr_html_(self) -> str | None:
        """Return the HTML that a notebook shows; None makes it show the `repr`."""
        return None if DISPLAY.html is None else DISPLAY.html(self)
