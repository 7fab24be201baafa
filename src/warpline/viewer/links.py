"""What the overview's figures lead to once the page's script runs, and commands to copy.

Without the script a figure is plain text: the buttons are off until it turns them on.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from warpline.result import Diagnosis, Evidence
from warpline.viewer.markup import LONGEST, Content, Markup, element

_FILES = 3


class Links(NamedTuple):
    """What there is to lead to.

    Attributes:
        files: Names of the recordings.
        tables: Names of the tables that the page holds.
        event_tables: Tables of the trace whose rows are events on the timeline.
        offset_ns: What the page takes from all times.
    """

    files: tuple[str, ...]
    tables: frozenset[str]
    event_tables: frozenset[str]
    offset_ns: int

    def table(self, name: str, content: Content) -> Content:
        """Return what a table shows in full, leading there if the page holds it."""
        return _button(content, data_table=name) if name in self.tables else content

    def part(self, device: int, category: str, content: Content) -> Markup:
        """Return a part of a device's time, leading to its stretches."""
        return _button(content, data_part=f"{device}/{category}")

    def range(self, name: str, content: Content) -> Markup:
        """Return a range's name, leading to the ranges so called; ``*`` is any number."""
        return _button(content, data_range=name)

    def evidence(self, item: Evidence) -> Content:
        """Return a sentence of a finding, leading to the first event or time that shows it."""
        if item.table in self.event_tables and item.rows:
            return _button(item.text, data_event=f"{item.table}:{item.rows[0]}")
        if item.windows_ns:
            start, end = item.windows_ns[0]
            span = f"{start - self.offset_ns},{end - self.offset_ns}"
            return _button(item.text, data_window=span)
        return item.text

    def command(self, words: str, *, has_files: bool = True) -> Markup:
        """Return a command that shows the same in a terminal, with the recordings' names."""
        names = [shlex.quote(name) for name in self.files] if has_files else []
        shown = [*names[:_FILES], *(["..."] if len(names) > _FILES else [])]
        copied = " ".join([words, *names])
        copy = element("button", "Copy", type="button", hidden="", data_copy=copied)
        if len(copied) > LONGEST:
            copy = Markup()  # it would be cut, and do something else
        return element(
            "p",
            "By hand: ",
            element("code", " ".join([words, *shown])),
            " ",
            copy,
            class_="wl-command",
        )


def links_of(diagnosis: Diagnosis, head: Mapping[str, Any]) -> Links:
    """Return what the page of a diagnosis can lead to.

    Args:
        diagnosis: What the overview tells.
        head: Of the container.
    """
    return Links(
        tuple(str(path).rpartition("/")[2] for path in diagnosis.meta["paths"]),
        frozenset(item["name"] for item in head["results"]),
        frozenset(head["tables"]),
        int(head["offset_ns"]),
    )


def _button(content: Content, **data: str) -> Markup:
    return element("button", content, type="button", disabled="", class_="wl-link", **data)
