"""Which CUDA API calls are recorded with a backtrace: the values of ``--cudabacktrace``."""

from __future__ import annotations

from warpline.errors import UsageError

KINDS = ("kernel", "memory", "sync", "other")
DEFAULT_NS = 80_000  # nsys's default threshold
_ALL = "all"
_NOTHING = "none"
_OLD_WORDS = {"true": _ALL, "false": _NOTHING}  # of early versions of nsys
_HINT = "use all, none, kernel, memory, sync or other, optionally with :NS, separated by commas"
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
    found: dict[str, int] = {}
    for part in text.lower().split(","):
        kind, colon, number = part.strip().partition(":")
        kind = _OLD_WORDS.get(kind, kind)
        is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS
        is_known = kind in (*KINDS, _ALL) or (kind == _NOTHING and not colon)
        if not is_known or (colon and not is_number):
            raise UsageError(f"--cudabacktrace: unknown kind {part!r}", hint=_HINT)
        if kind == _NOTHING:
            found.clear()
            continue
        from_ns = int(number) if colon else DEFAULT_NS
        found.update(dict.fromkeys(KINDS if kind == _ALL else (kind,), from_ns))
    return found
