"""``warpline summary`` and ``warpline RECORDING``: a recording on one screen."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from warpline.cli.arguments import (
    add_filters,
    add_output,
    add_recordings,
    filters_in_words,
    open_trace,
    warn_if_all_excluded,
    with_filter_named,
)
from warpline.cli.output import Output
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    import dataclasses

    from warpline import api
    from warpline.render import screen
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    screen = lazy("warpline.render.screen")

NAME = "summary"
HELP = "summarize on one screen: GPU utilization, top kernels, copies and ranges"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    add_filters(parser)
    add_output(parser, formats="text, csv, json, markdown")


def run(args: Namespace) -> int:
    """Print the summary."""
    output = Output(args, {"text": screen.render})
    trace = open_trace(args)
    document = api.summary(trace)
    part = filters_in_words(args)
    if part:
        warn_if_all_excluded(trace, args)
        sections = tuple(with_filter_named(section, args) for section in document.sections)
        document = dataclasses.replace(
            document, title=f"{document.title} {part}", sections=sections
        )
    output.write(document)
    return 0
