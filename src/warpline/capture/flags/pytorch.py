"""What is recorded of PyTorch: the values of ``--pytorch``."""

from __future__ import annotations

import difflib

from warpline.errors import UsageError

ALL = "all"
NOTHING = "none"
OF_ALL = ("modules", "optimizer", "dataloader")
# The operators of autograd-nvtx are ranges; those of functions-trace are rows of the table `op`.
OPERATORS = ("autograd-nvtx", "autograd-shapes-nvtx", "functions-trace", "functions-trace-shapes")
MEMORY = "memory"
WORDS = (*OF_ALL, *OPERATORS, MEMORY)


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
