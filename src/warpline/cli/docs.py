"""``warpline docs``: the documentation, in the browser or on the terminal."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.cli.stdout import text_width, write_text
from warpline.errors import WarplineError

if TYPE_CHECKING:
    import webbrowser

    from rich import console, markdown

    from warpline.cli import manual
else:
    webbrowser = lazy("webbrowser")
    console = lazy("rich.console")
    markdown = lazy("rich.markdown")
    manual = lazy("warpline.cli.manual")

NAME = "docs"
HELP = "open the documentation of a command, finding, table or term"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"{parser.prog} [TOPIC] [OPTIONS]"
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="TOPIC",
        help="a command, a finding, a table, a term, or a page, such as analyze, pageable-copy,"
        " cuda_gpu_kern_sum or profiling (default: the first page)",
    )
    parser.add_argument(
        "--print",
        action="store_true",
        dest="prints",
        help="print it instead, as Markdown if standard output is no terminal (default where there"
        " is no browser, or the installation has no HTML pages)",
    )
    parser.epilog = (
        "HTML pages come with released wheels; in a source tree, make site builds them. No network"
        " is used."
    )


def run(args: Namespace) -> int:
    """Open the topic, or print it."""
    pages = manual.installed()
    topic, *others = pages.find(" ".join(args.topic) or manual.FIRST_PAGE)
    if not (args.prints or _is_piped()) and (address := _opened(pages, topic)) is not None:
        status = write_text(address)
    else:
        status = _show(pages.text(topic))
    if others and not _is_piped():
        talk.hint(f"see also: warpline docs {' or '.join(map(str, others))}")
    return status


def _is_piped() -> bool:
    return sys.stdout is None or not sys.stdout.isatty()


def _opened(pages: manual.Manual, topic: manual.Topic) -> str | None:
    """Open a topic in a browser, and return its URL; None if that cannot be done."""
    try:
        browser = webbrowser.get()
        address = pages.address(topic)
    except webbrowser.Error:
        return None
    except WarplineError as error:
        talk.warning(error.message)
        return None
    return address if address is not None and browser.open(address) else None


def _show(text: str) -> int:
    """Write a topic to standard output: as Markdown, or formatted for a terminal."""
    if _is_piped():
        return write_text(text)
    terminal = console.Console(width=text_width(), highlight=False)
    terminal.print(markdown.Markdown(text, hyperlinks=False))
    return 0
