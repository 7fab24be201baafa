"""HTML and SVG as text: every value is escaped, and invisible characters are made visible."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

LONGEST = 1000

# Control, bidirectional, and zero-width characters, and lone surrogates.
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Content = str | Markup | Iterable["Content"] | None


def text(value: str) -> Markup:
    """Return an untrusted text as HTML, for elements and attributes."""
    short = value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"
    return Markup(html.escape(_UNSEEN.sub(_shown, short), quote=True))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def join(content: Content) -> Markup:
    """Return nested content as HTML; plain text is escaped."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return text(content)
    return Markup("".join(join(item) for item in content))


def element(tag: str, *content: Content, **attributes: str | None) -> Markup:
    """Return an element.

    Args:
        tag: Name of the element.
        content: Its content, in order.
        attributes: Attributes by name, with ``_`` for ``-``. A trailing ``_`` is ignored. None
            omits the attribute.
    """
    opened = _opened(tag, attributes)
    return Markup(f"<{opened}>{join(content)}</{tag}>")


def void(tag: str, **attributes: str | None) -> Markup:
    """Return a void element, such as ``meta``."""
    return Markup(f"<{_opened(tag, attributes)}>")


def _opened(tag: str, attributes: dict[str, str | None]) -> str:
    assert _NAME.match(tag)
    said = [tag]
    for name, value in attributes.items():
        written = name.rstrip("_").replace("_", "-")
        if value is not None:
            said.append(f'{written}="{text(value)}"')
    return " ".join(said)
