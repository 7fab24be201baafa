"""Where in the program's own Python code CUDA API calls were made."""

from __future__ import annotations

import re
from typing import NamedTuple

from warpline.derived import derived
from warpline.derived.python_stacks import python_stacks
from warpline.lazy import lazy_pattern
from warpline.trace import Trace

# Files of installed packages, of Python itself, and of what records; code without a file.
_FOREIGN = lazy_pattern(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3"
    r"|[/\\]warpline[/\\]injected[/\\]|^<"
)
# Functions that only call another one: those of decorators, and of nn.Module's calls.
_WRAPPER = lazy_pattern(r"^_|wrap|decorat")
_FRAME = re.compile(r"(?P<file>.*?)(?::(?P<line>\d+))? (?P<name>\S+)$")


class CodePlace(NamedTuple):
    """A place in Python code.

    Attributes:
        text: ``train.py:41 train_step``: the innermost frame that is the program's own code.
        via: The function of a package that this frame called, such as ``clip_grad_norm_``; empty
            for none.
        stack: The whole stack, a line per frame, innermost first.
        innermost: The innermost function, also of a package.
    """

    text: str
    via: str
    stack: str
    innermost: str


@derived
def code_places(trace: Trace) -> tuple[CodePlace, ...]:
    """Return the place of each of the texts of `python_stacks`."""
    return tuple(map(code_place, python_stacks(trace).texts))


def code_place(stack: str) -> CodePlace:
    """Return the place that a stack leads to.

    Without a frame of the program's own code, it is the innermost one.

    Args:
        stack: A line ``file:line function`` per frame, innermost first.
    """
    frames = stack.split("\n")
    own = next((place for place, frame in enumerate(frames) if not _FOREIGN.search(frame)), 0)
    called = [_parts(frame)[1] for frame in reversed(frames[:own])]
    via = next((name for name in called if not _WRAPPER.search(name)), called[0] if own else "")
    file, name = _parts(frames[own])
    short = file.replace("\\", "/").rpartition("/")[2]
    return CodePlace(f"{short} {name}", via, stack, _parts(frames[0])[1])


def _parts(frame: str) -> tuple[str, str]:
    """Return the file with its line, and the function's name without classes."""
    found = _FRAME.match(frame)
    if found is None:
        return frame, ""
    file, line, name = found["file"], found["line"], found["name"]
    return (file if line is None else f"{file}:{line}"), name.rpartition(".")[2]
