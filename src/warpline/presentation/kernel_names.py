"""Kernel names in short, for one line of a screen."""

from __future__ import annotations

import re

# Names may be megabytes long, so every part must match in linear time.
_NOISE = re.compile(
    r"^void |(?:(?<!\w)\w++|<unnamed>|\(anonymous namespace\))::|\([a-z ]++\)(?=\d)"
)


def without_noise(name: str) -> str:
    """Return a kernel name without return type, namespaces and casts of numbers.

    ``void at::native::reduce_kernel<(int)4, at::native::ReduceOp<float>>(T3)`` becomes
    ``reduce_kernel<4, ReduceOp<float>>(T3)``.
    """
    return _NOISE.sub("", name)
