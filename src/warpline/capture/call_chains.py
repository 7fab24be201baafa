"""Which CUDA calls are recorded with the calls that led to them, as ``--cudabacktrace`` says it."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.errors import UsageError

KINDS = ("kernel", "memory", "sync", "other")
DEFAULT_NS = 80_000  # nsys's: calls that take longer are worth asking who made them
_ALL = "all"
_NOTHING = "none"
_OLD_WORDS = {"true": _ALL, "false": _NOTHING}  # of early versions of nsys
_HINT = "all, none, kernel, memory, sync or other, each with :NS behind it, joined by commas"
_MAX_DIGITS = 18


def parse_call_chains(text: str) -> dict[str, int]:
    """Return the least duration in ns for each kind of call that is to have a call chain.

    Args:
        text: ``all`` (or ``true``), ``none`` (``false``), or kinds joined by commas; a kind
            may be followed by ``:NS``, the duration below which its calls have none. What comes
            later replaces what came before.

    Raises:
        UsageError: It is none of these.
    """
    found: dict[str, int] = {}
    for part in text.lower().split(","):
        kind, colon, number = part.strip().partition(":")
        kind = _OLD_WORDS.get(kind, kind)
        is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS
        is_known = kind in (*KINDS, _ALL) or (kind == _NOTHING and not colon)
        if not is_known or (colon and not is_number):
            raise UsageError(f"--cudabacktrace: {part!r} names no calls", hint=_HINT)
        if kind == _NOTHING:
            found.clear()
            continue
        from_ns = int(number) if colon else DEFAULT_NS
        found.update(dict.fromkeys(KINDS if kind == _ALL else (kind,), from_ns))
    return found


def agent_keys(chains: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the keys and values of agent.conf that ask for call chains."""
    return [(f"cuda_chains_{kind}", str(from_ns)) for kind, from_ns in chains.items()]
