"""The form of a flag's name: words and abbreviations, not a password in place of a flag."""

from __future__ import annotations

import re

from warpline.lazy import lazy_pattern
from warpline.redaction.flags import is_listed
from warpline.redaction.known_secrets import holds_known_secret

_LONGEST = 64
_MOST_PARTS = 8
_MOST_DIGITS = 4
_LOWER = r"[a-z]{1,20}[0-9]{0,3}"
_UPPER = r"[A-Z]{1,20}[0-9]{0,2}"
_SHORT = r"[0-9]{1,2}[a-z]{0,2}"  # 2d, 8bit is below
_MIDDLE = (
    r"[0-9]{1,2}bit|[a-z]{1,3}2[a-z]{1,3}|seq2seq|word2vec|wav2vec2?|int[48][a-z]{2}|e[0-9]m[0-9]"
)
_CAPITAL = r"(?:[A-Z][a-z]{2,15}|Lr|Id|GPUs?|CPUs?|CUDA|FP[0-9]{1,2}|BF16|ID|LR|LRs|KV|IO)"
_CAMEL = rf"(?:[a-z]{{2,16}})?{_CAPITAL}{{1,4}}[0-9]{{0,2}}"
_PART = lazy_pattern(rf"{_LOWER}|{_SHORT}|{_MIDDLE}|{_CAMEL}|{_UPPER}", re.ASCII)
_BARE_PART = lazy_pattern(rf"{_LOWER}|{_SHORT}|{_MIDDLE}", re.ASCII)
_VARIABLE_PART = lazy_pattern(r"[A-Z]{1,20}[0-9]{0,2}|[0-9]{1,2}[A-Z]?", re.ASCII)
_NO_WORD = lazy_pattern(r"[b-df-hj-np-tv-xz]{6}", re.IGNORECASE)


def is_flag_name(name: str) -> bool:
    """Return whether a name without leading dashes has the form of a flag's name."""
    return is_listed(name) or ("/" not in name and _is_made_of(name, _PART))


def is_bare_name(name: str) -> bool:
    """Return whether ``name`` in ``name=value`` has the form of a setting or a variable."""
    return is_listed(name) or _is_made_of(name, _BARE_PART) or _is_made_of(name, _VARIABLE_PART)


def is_module_name(name: str) -> bool:
    """Return whether a name has the form of a Python module's name."""
    return "-" not in name and _is_made_of(name.strip("_"), _PART)


def _is_made_of(name: str, part: re.Pattern[str]) -> bool:
    if not name or len(name) > _LONGEST or not name[0].isascii() or not name[0].isalpha():
        return False
    parts = [text for text in re.split(r"[._/-]", name) if text]
    return (
        len(parts) <= _MOST_PARTS
        and all(part.fullmatch(text) for text in parts)
        and sum(letter.isdigit() for letter in name) <= _MOST_DIGITS
        and _NO_WORD.search(name) is None
        and not holds_known_secret(name)
    )
