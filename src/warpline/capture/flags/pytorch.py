"""What is recorded of PyTorch: the values of ``--pytorch``."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from warpline.errors import UsageError

ALL = "all"
NOTHING = "none"
OF_ALL = ("modules", "optimizer", "dataloader")
# The operators of autograd-nvtx are ranges; those of functions-trace are rows of the table `op`.
OPERATORS = ("autograd-nvtx", "autograd-shapes-nvtx", "functions-trace", "functions-trace-shapes")
MEMORY = "memory"
WORDS = (*OF_ALL, *OPERATORS, MEMORY)
# Their rows are added by what reads recordings.
NEEDS_READING = frozenset(("functions-trace", "functions-trace-shapes", MEMORY))

# The NVTX domains of what each word records; "default" is the unnamed one, that of PyTorch's own
# ranges, such as those of backward passes. `injected` has the names, too.
_DOMAINS = {
    "modules": ("nn.Module", "torch.compile", "default"),
    "optimizer": ("torch",),
    "dataloader": ("torch",),
    **dict.fromkeys(OPERATORS, ("default",)),
    MEMORY: ("warpline",),  # the time that writing its events takes
}


class NvtxChoice(NamedTuple):
    """Which NVTX ranges are recorded.

    Attributes:
        trace: The APIs to trace.
        include: The only domains; empty for all.
        warnings: What is recorded besides what was asked for, or is not.
    """

    trace: tuple[str, ...]
    include: tuple[str, ...]
    warnings: tuple[str, ...]


def with_ranges(
    words: tuple[str, ...],
    trace: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> NvtxChoice:
    """Return a choice of NVTX ranges with those that are asked for by words of ``--pytorch``.

    Args:
        words: From `parse_pytorch`.
        trace: The APIs to trace.
        include: The only NVTX domains to record; empty for all.
        exclude: NVTX domains to exclude, which wins.
    """
    wanted = dict.fromkeys(domain for word in words for domain in _DOMAINS[word])
    warnings = []
    if wanted and "nvtx" not in trace:
        trace = (*trace, "nvtx")
        include = tuple(wanted) if not exclude else ()
        warnings.append("NVTX ranges of PyTorch are recorded, too, for --pytorch")
    elif include:
        added = [domain for domain in wanted if domain not in include]
        include = (*include, *added)
        if added:
            warnings.append(f"NVTX domains recorded, too, for --pytorch: {', '.join(added)}")
    lost = [domain for domain in exclude if domain in wanted]
    if lost:
        warnings.append(f"--pytorch lacks what is in excluded NVTX domains: {', '.join(lost)}")
    return NvtxChoice(trace, include, tuple(warnings))


def parse_pytorch(text: str, *, name: str = "--pytorch") -> tuple[str, ...]:
    """Return the words that a value stands for, without repetitions.

    Args:
        text: Words separated by commas: those of `WORDS`, ``all``, or ``none``, which discards the
            words before it. ``memory`` stands for ``all``, too.
        name: The flag, for errors.

    Raises:
        UsageError: A word is unknown.
    """
    found: list[str] = []
    for part in text.lower().split(","):
        word = part.strip()
        if word in {NOTHING, ""}:
            found.clear()
        elif word == ALL:
            found += OF_ALL
        elif word == MEMORY:  # memory is that of modules, phases and steps
            found += (*OF_ALL, MEMORY)
        elif word in WORDS:
            found.append(word)
        else:
            near = difflib.get_close_matches(word, (*WORDS, ALL), n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"use {', '.join((*WORDS, ALL, NOTHING))}"
            )
            raise UsageError(f"{name}: unknown value {word!r}", hint=hint)
    return tuple(dict.fromkeys(found))
