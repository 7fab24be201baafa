"""Redaction of environment variables: which are kept, and which of their values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpline.lazy import lazy_pattern
from warpline.redaction import values
from warpline.redaction.known_secrets import LONGEST, MASK, holds_known_secret, is_secret_name
from warpline.redaction.variables import KEPT_NAMES, KEPT_PREFIXES, WORDS

_NAME = lazy_pattern(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)
_BETWEEN = lazy_pattern(r"[,;: +=^\[\]]", re.ASCII)
_PIECE = lazy_pattern(
    r"[+-]?[0-9]{1,10}(?:\.[0-9]{1,10}){0,3}(?:[kKmMgGtT]i?[bB]?|%|s|ms)?|0x[0-9a-fA-F]{1,8}"
    r"|[0-9]{1,3}-[0-9]{1,3}|[0-9]{1,2}\.[0-9]a?"
    # Network devices: eth0, ib0, enp0s31f6, mlx5_0.
    r"|(?:eth|ib|ibp|ibs|bond|docker|hsn|mlx[45]_|en[ops]|rdma)[0-9]{1,4}(?:[fsnd][0-9]{1,4}){0,3}",
    re.ASCII,
)
_GPUS = lazy_pattern(r"(?:(?:GPU|MIG)-[0-9a-fA-F-]{8,40},?)+", re.ASCII)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_ADDRESSES = ("_ADDR", "_ADDRESS", "_HOST", "_IP")


def redact_environment(environment: Mapping[str, str], *, keep_all: bool = False) -> dict[str, str]:
    """Return the variables that a recording keeps, by name in alphabetical order.

    Variables that help to explain a profile are kept. In their values, everything except numbers,
    devices and known words becomes ``***``.

    Args:
        environment: The environment of the program.
        keep_all: Keep all variables unmasked, including secrets, as the user requested.
    """
    if keep_all:
        return dict(sorted(environment.items()))
    return {
        name: redact_value(name, value)
        for name, value in sorted(environment.items())
        if is_kept(name)
    }


def is_kept(name: str) -> bool:
    """Return whether a variable is on the list of variables to keep."""
    if name in KEPT_NAMES:
        return True
    is_known = name.startswith(KEPT_PREFIXES) and _NAME.fullmatch(name) is not None
    return is_known and not is_secret_name(name) and not holds_known_secret(name)


def redact_assignment(name: str, value: str) -> str:
    """Return the redacted value of ``NAME=VALUE`` in a command line."""
    return redact_value(name, value) if is_kept(name) else MASK


def redact_value(name: str, value: str) -> str:
    """Return the value of a kept variable: itself if all of it is harmless, else ``***``."""
    if name.endswith(_ADDRESSES):  # hosts and addresses are private
        return value if value in _LOOPBACK else MASK
    if len(value) > LONGEST:
        return MASK
    if "DEVICES" in name and _GPUS.fullmatch(value):
        return value
    return value if all(map(_is_harmless, _BETWEEN.split(value))) else MASK


def _is_harmless(piece: str) -> bool:
    if not piece or _PIECE.fullmatch(piece):
        return True
    return piece.lower() in WORDS or values.is_known_word(piece)
