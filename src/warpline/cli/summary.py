"""``warpline summary``, and ``warpline RECORDING``: one screen about a recording."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from warpline.cli.arguments import add_filters, add_recordings, filters_in_words, open_trace
from warpline.cli.output import Output, add_output
from warpline.cli.startup import load_api

NAME = "summary"
HELP = "one screen: what was recorded, how busy each device was, what took the time"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    add_recordings(parser)
    add_filters(parser)
    add_output(parser, formats="text, csv, json, markdown")


def run(args: Namespace) -> int:
    """Print the summary."""
    from dataclasses import replace  # noqa: PLC0415 - start-up

    api = load_api()
    from warpline.render.screen import render  # noqa: PLC0415 - start-up: brings numpy

    output = Output(args, {"text": render})
    document = api.summary(open_trace(args))
    part = filters_in_words(args)
    output.write(replace(document, title=f"{document.title} {part}") if part else document)
    return 0
