"""Which CUDA API calls are recorded with a backtrace, native or of Python."""

from __future__ import annotations

from warpline.errors import UsageError

KINDS = ("kernel", "memory", "sync", "other")
DEFAULT_NS = 80_000  # nsys's default threshold
_ALL = "all"
_NOTHING = "none"
_OLD_WORDS = {"true": _ALL, "false": _NOTHING}  # of early versions of nsys
_CUDA = "cuda"  # nsys's word for all calls that get Python backtraces
_KINDS_HINT = "none, kernel, memory, sync or other, optionally with :NS, separated by commas"
_MAX_DIGITS = 18


def parse_call_chains(text: str) -> dict[str, int]:
    """Return the minimum duration in ns for each kind of call that gets a backtrace.

    Args:
        text: ``all`` (or ``true``), ``none`` (``false``), or kinds separated by commas. A kind
            may be followed by ``:NS``, the duration below which its calls get no backtrace. Later
            entries override earlier ones.

    Raises:
        UsageError: The text is invalid.
    """
    return _parse(text, "--cudabacktrace", _ALL, DEFAULT_NS)


def parse_python_chains(text: str) -> dict[str, int]:
    """Return the minimum duration in ns for each kind of call that gets a Python backtrace.

    Args:
        text: ``cuda`` for all kinds, ``none``, or kinds as in `parse_call_chains`. The minimum
            duration is 0 by default: a Python backtrace costs little.

    Raises:
        UsageError: The text is invalid.
    """
    return _parse(text, "--python-backtrace", _CUDA, 0)


def _parse(text: str, flag: str, all_kinds: str, default_ns: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.lower().split(","):
        kind, colon, number = part.strip().partition(":")
        kind = _OLD_WORDS.get(kind, kind)
        if kind == _ALL:
            kind = all_kinds
        is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS
        is_known = kind in (*KINDS, all_kinds) or (kind == _NOTHING and not colon)
        if not is_known or (colon and not is_number):
            hint = f"use {all_kinds}, {_KINDS_HINT}"
            raise UsageError(f"{flag}: unknown kind {part!r}", hint=hint)
        if kind == _NOTHING:
            found.clear()
            continue
        from_ns = int(number) if colon else default_ns
        found.update(dict.fromkeys(KINDS if kind == all_kinds else (kind,), from_ns))
    return found
