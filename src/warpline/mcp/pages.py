"""Answers in pages of bounded size.

An answer is a head of facts and sections of rows. Rows that do not fit are on later pages.

The size of a text is counted in tokens by a rule of our own, as tokenizers differ and none is at
hand: a run of letters is a token per 4, a run of digits one per 3, every other character one,
except spaces and line ends, and a character outside of ASCII one per byte. A text is at least a
token per 3.5 bytes. For JSON the rule gives more than the tokenizers of common models do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpline.errors import UsageError

LIMIT_TOKENS = 2000
_RESERVED_TOKENS = 150  # for the cursor, and what says that something was cut
_HEAD_TOKENS = 600
_ROW_TOKENS = 1100
_TEXT_CHARS = 400  # of a cell of a table, in a row among others
_LONG_CHARS = 4000
_LEAST_CHARS = 12
_ROUNDED_FROM = 1e5
_BYTES_PER_TOKEN = 3.5
_PIECE = re.compile(r"([A-Za-z]+)|([0-9]+)|([\x00-\x20])|([\x21-\x7f])|([^\x00-\x7f]+)")


@dataclass(frozen=True)
class Section:
    """A part of an answer.

    Attributes:
        name: Its key in the answer.
        rows: The rows: lists of values if there are columns, else dictionaries or texts.
        columns: The names of the values of a row; None for rows of another kind.
    """

    name: str
    rows: Sequence[Any]
    columns: Sequence[str] | None = None


def tokens(text: str) -> int:
    """Return the size of a text by the rule of this module."""
    count = 0
    for letters, digits, space, _, other in _PIECE.findall(text):
        if letters:
            count += -(-len(letters) // 4)
        elif digits:
            count += -(-len(digits) // 3)
        elif other:
            count += len(other.encode("utf-8", "surrogatepass"))
        elif not space:
            count += 1
    return max(count, math.ceil(len(text.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN))


def page(head: Mapping[str, Any], sections: Sequence[Section], cursor: str | None) -> str:
    """Return one page of an answer as JSON, of at most `LIMIT_TOKENS`.

    Args:
        head: Facts, which each page begins with.
        sections: The rows.
        cursor: The ``next`` of the page before; None for the first page.

    Raises:
        UsageError: There is no such page.
    """
    total = sum(len(section.rows) for section in sections)
    first = _first_row(cursor, total)
    shown, is_cut = _fitting(dict(head), _HEAD_TOKENS, _TEXT_CHARS)
    lines = [f"{_dumped(name)}:{_dumped(value)}" for name, value in shown.items()]
    budget = LIMIT_TOKENS - _RESERVED_TOKENS - sum(tokens(line) + 1 for line in lines)
    place, has_rows = 0, False
    for section in sections:
        begin, place = place, place + len(section.rows)
        if place <= first and not (section.rows == [] and first == 0):
            continue
        rows = section.rows[max(first - begin, 0) :]
        budget -= tokens(_of_section(section, ())) + 1
        must = rows and not has_rows
        taken, cut = _taken(section, rows, budget, must=bool(must), is_only=total == 1)
        budget -= sum(tokens(row) + 1 for row in taken)
        is_cut |= cut
        has_rows |= bool(taken)
        if taken or (not rows and budget > 0):
            lines.append(_of_section(section, taken))
        if len(taken) < len(rows):
            lines.append(f'"next":"{place - len(rows) + len(taken)}"')
            break
    if is_cut:
        lines.append('"cut":"texts that end in … are shortened; ask for one row, or one column"')
    return "{" + ",\n".join(lines) + "}"


def check_cursor(cursor: str) -> None:
    """Raise UsageError for what is no cursor."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 12):
        raise UsageError(f"invalid cursor {cursor[:40]!r}", hint="pass the `next` of the last page")


def _first_row(cursor: str | None, total: int) -> int:
    if cursor is None:
        return 0
    check_cursor(cursor)
    if int(cursor) >= max(total, 1):
        raise UsageError(f"cursor {cursor} is past the end: the answer has {total} rows")
    return int(cursor)


def _taken(
    section: Section, rows: Sequence[Any], budget: int, *, must: bool, is_only: bool
) -> tuple[list[str], bool]:
    """Return the rows that fit, as JSON, and whether one was shortened.

    The first one is made to fit if it must, so that each page has a row.
    """
    taken: list[str] = []
    is_cut = False
    is_narrow = is_only or section.columns is None or len(section.columns) == 1
    for row in rows:
        most = min(_ROW_TOKENS, budget - 1) if must and not taken else _ROW_TOKENS
        shown, cut = _fitting(row, most, _LONG_CHARS if is_narrow else _TEXT_CHARS)
        text = _dumped(shown)
        budget -= tokens(text) + 1
        if budget < 0:
            break
        is_cut |= cut
        taken.append(text)
    return taken, is_cut


def _of_section(section: Section, taken: Sequence[str]) -> str:
    rows = "[" + ",\n".join(taken) + "]"
    if section.columns is None:
        return f"{_dumped(section.name)}:{rows}"
    return f'{_dumped(section.name)}:{{"columns":{_dumped(list(section.columns))},\n"rows":{rows}}}'


def _fitting(value: Any, most: int, chars: int) -> tuple[Any, bool]:
    """Return a value with texts and lists as long as it fits, and whether something was cut."""
    items = 1000
    while True:
        shown, is_cut = _shortened(value, chars, items)
        if tokens(_dumped(shown)) <= most or (chars <= _LEAST_CHARS and items <= 1):
            return shown, is_cut
        chars, items = max(chars // 2, _LEAST_CHARS), max(items // 2, 1)


def _shortened(value: Any, chars: int, items: int) -> tuple[Any, bool]:
    if isinstance(value, str):
        is_long = len(value) > chars
        return (value[: chars - 1] + "…" if is_long else value), is_long
    if isinstance(value, Mapping):
        pairs = {name: _shortened(item, chars, items) for name, item in value.items()}
        return {name: shown for name, (shown, _) in pairs.items()}, any(
            cut for _, cut in pairs.values()
        )
    if isinstance(value, list | tuple):
        parts = [_shortened(item, chars, items) for item in value[:items]]
        is_long = len(value) > items
        return [shown for shown, _ in parts], is_long or any(cut for _, cut in parts)
    return value, False


def _dumped(value: Any) -> str:
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _finite(value: Any) -> Any:
    """Return a value without what JSON lacks, and without digits that no measurement has."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.6g}") if abs(value) < _ROUNDED_FROM else round(value, 1)
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
