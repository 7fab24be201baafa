"""Fixtures: containers and pages of traces."""

from __future__ import annotations

import pytest
from support.viewer_container import Decoded

from warpline import api
from warpline.trace import Run
from warpline.viewer.pack import TableOfStats, pack
from warpline.viewer.page import Assets


def packed(trace, tables=(), **options):
    """Return the diagnosis and the container of a trace."""
    diagnosis = api.analyze(trace)
    results = [TableOfStats(api.stats(trace, name), f"stats -r {name}") for name in tables]
    return diagnosis, pack(Run(trace), diagnosis, results, **options)


@pytest.fixture
def assets():
    """A stand-in for the page's script and style sheets."""
    return Assets("window.warpline={take(){}};", ("main{color:red}", "p{margin:0}"))


@pytest.fixture
def read():
    """Return a container as decoded by a page."""

    def read(trace, tables=(), **options):
        container = packed(trace, tables, **options)[1]
        return Decoded(container.head, [block.data for block in container.blocks])

    return read


@pytest.fixture
def make():
    """Return the diagnosis and the container of a trace."""
    return packed
