"""The page: one self-contained HTML file, or the same page for a server.

Only our script can run, and no data can leave the page: its content security policy allows the
script and the style sheets by hash, and no connections.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, Literal, NamedTuple

from warpline.errors import InputError
from warpline.result import Diagnosis
from warpline.viewer.container import Block, Container, script_json
from warpline.viewer.markup import Markup, element, text, void
from warpline.viewer.static_page import static_page

Source = Literal["inline", "http"]

_TAKE = "warpline.take()"
_END = '\n<i id="warpline-end" hidden></i></body></html>\n'  # the style sheet tests for it
_FIRST_BLOCKS = 2  # the overview and the names come before the script
_END_OF_SCRIPT = re.compile(r"</(script|style)|<!--", re.IGNORECASE)
_INCOMPLETE = (
    "This file is incomplete: events or tables at its end are missing. Copy the file again, or"
    " create the report again."
)
_NO_SCRIPT = (
    "The timeline and the tables need JavaScript. The script has no network access. The overview"
    " above works without JavaScript."
)


class Assets(NamedTuple):
    """The script and the style sheets of the page."""

    script: str
    styles: tuple[str, ...]


def assets(name: Literal["viewer", "kernels", "memory", "flame", "fleet"] = "viewer") -> Assets:
    """Return the script and style sheets of this package.

    Args:
        name: Which page: that of the timeline, of profiled kernels, of memory, of flame graphs, or
            of fleets.

    Raises:
        InputError: The package was built without them.
    """
    folder = resources.files("warpline.viewer")
    try:
        script = (folder / "dist" / f"{name}.js").read_text(encoding="utf-8")
        style = (folder / "dist" / f"{name}.css").read_text(encoding="utf-8")
    except OSError:
        raise InputError(
            "the viewer script is not installed", hint="run npm run build in viewer/"
        ) from None
    own = (folder / "static_page.css").read_text(encoding="utf-8")
    return Assets(embeddable(script), (embeddable(own), embeddable(style)))


def embeddable(content: str) -> str:
    """Return a script or style sheet as the browser parses it in an element, for hashing."""
    plain = content.replace("\r\n", "\n").replace("\r", "\n")
    found = _END_OF_SCRIPT.search(plain)
    if found:
        raise InputError(f"the viewer script contains {found[0]!r}, which would end its element")
    return plain


def policy(parts: Assets, source: Source, scripts: Iterable[str] = ()) -> str:
    """Return the content security policy of the page.

    Args:
        parts: Its script and style sheets.
        source: As for `page`.
        scripts: Further scripts.
    """
    allowed = " ".join(_hash(script) for script in (parts.script, _TAKE, *scripts))
    styles = " ".join(_hash(style) for style in parts.styles)
    connect = "'self'" if source == "http" else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {styles}; worker-src blob:;"
        f" child-src blob:; img-src data: blob:; connect-src {connect}; base-uri 'none';"
        " form-action 'none'"
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page(
    diagnosis: Diagnosis | None, container: Container, parts: Assets, source: Source
) -> Iterator[str]:
    """Yield the page in pieces; a report includes the blocks, a served page fetches them.

    Args:
        diagnosis: The diagnosis in the overview; None while it is being computed.
        container: The data of the timeline and the tables.
        parts: From `assets`.
        source: ``inline`` for a report, ``http`` for a served page.
    """
    head = container.head
    yield from _beginning(f"{head['title']} · Warpline", parts, source)
    content = (
        element("p", head["pending"] or "") if diagnosis is None else static_page(diagnosis, head)
    )
    yield element("div", _banner(head["thinned"]), content, id="warpline-static")
    yield from app(_NO_SCRIPT)
    yield from _head(container.head_json(source))
    count = len(container.blocks) if source == "inline" else 0
    for number in range(min(count, _FIRST_BLOCKS)):
        yield from _block(number, container.blocks[number])
    yield f"\n<script>{parts.script}</script>"
    for number in range(_FIRST_BLOCKS, count):
        yield from _block(number, container.blocks[number])
        yield f"<script>{_TAKE}</script>"
    yield _END


def page_of_blocks(
    title: str, body: Iterable[str], head: Any, blocks: Sequence[Block], parts: Assets
) -> Iterator[str]:
    """Yield a page that reads all of its blocks when it needs them, in pieces.

    Args:
        title: What the page is of, and what it shows.
        body: What is in it before the data, with `app`.
        head: What the page reads first, as JSON.
        blocks: Its data.
        parts: From `assets`.
    """
    yield from _beginning(f"{title} · Warpline", parts, "inline")
    yield from body
    yield from _head(script_json(head))
    for number, block in enumerate(blocks):
        yield from _block(number, block)
    # The script comes last, so that all blocks are there.
    yield f"\n<script>{parts.script}</script>"
    yield _END


def app(no_script: str) -> Iterator[str]:
    """Yield the element of the script, and what is said without JavaScript."""
    yield f"\n<noscript><p>{text(no_script)}</p></noscript>"
    yield '\n<div id="warpline-app"></div>\n'


def _beginning(title: str, parts: Assets, source: Source) -> Iterator[str]:
    yield "<!doctype html>\n"
    yield '<html lang="en"><head><meta charset="utf-8">\n'
    yield void("meta", http_equiv="Content-Security-Policy", content=policy(parts, source))
    yield void("meta", name="viewport", content="width=device-width,initial-scale=1")
    yield void("meta", name="referrer", content="no-referrer")
    yield void("meta", name="color-scheme", content="light dark")
    yield element("title", title)
    for style in parts.styles:
        yield f"\n<style>{style}</style>"
    yield "\n</head><body>\n"
    yield element("p", _INCOMPLETE, id="warpline-incomplete", role="alert")


def _head(content: str) -> Iterator[str]:
    yield '<script type="application/json" id="warpline-head">'
    yield content
    yield "</script>"


def _banner(thinned: dict[str, str] | None) -> Markup | None:
    return element("p", thinned["text"], class_="wl-thinned") if thinned else None


def _block(number: int, block: Block) -> Iterator[str]:
    yield f'\n<script type="text/plain" data-block="{number}">'
    yield base64.b64encode(block.data).decode("ascii")
    yield "</script>"
