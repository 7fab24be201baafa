"""Kernel names in short, for one line of a screen."""

from __future__ import annotations

import re

# Names may be megabytes long, so every part must match in linear time.
_NOISE = re.compile(
    r"^void |(?:(?<!\w)\w++|<unnamed>|\(anonymous namespace\))::|\([a-z ]++\)(?=\d)"
)
_MANGLED = re.compile(r"_ZN?[KL]?")
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")


def without_noise(name: str) -> str:
    """Return a kernel name without return type, namespaces and casts of numbers.

    ``void at::native::reduce_kernel<(int)4, at::native::ReduceOp<float>>(T3)`` becomes
    ``reduce_kernel<4, ReduceOp<float>>(T3)``. Of a name that is mangled by the Itanium ABI, the
    function remains: ``_ZN2at6native13reduce_kernelILi512EEEvT_`` becomes ``reduce_kernel<...>``.
    """
    mangled = _MANGLED.match(name)
    if mangled:
        return _function(name, mangled.end()) or name
    return _NOISE.sub("", name)


def _function(name: str, place: int) -> str:
    """Return the last of the names that follow one another, each after its length."""
    last = ""
    while length := _LENGTH.match(name, place):
        place = length.end() + int(length.group())
        if place > len(name):
            return ""
        last = name[length.end() : place]
    # Anything else, such as an operator, would need a whole demangler.
    if name.startswith("_ZN") and not name.startswith(("I", "E"), place):
        return ""
    return f"{last}<...>" if last and name.startswith("I", place) else last
