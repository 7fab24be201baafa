"""Links from the overview to timeline and tables, and commands to copy.

Without the script a figure is plain text: the buttons are disabled until the script enables them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from warpline.presentation import Link
from warpline.result import Diagnosis, Evidence
from warpline.viewer.markup import LONGEST, Content, Markup, element

_FILES = 3


class Links(NamedTuple):
    """The available link targets.

    Attributes:
        files: Names of the recordings.
        tables: Names of the tables in the page, by their names without arguments: "steps" is
            "steps:name=forward" if these steps were chosen.
        event_tables: Tables of the trace whose rows are events on the timeline.
        offset_ns: Subtracted from all times of the page.
    """

    files: tuple[str, ...]
    tables: Mapping[str, str]
    event_tables: frozenset[str]
    offset_ns: int

    def link(self, link: Link, content: Content) -> Content:
        """Return content that leads to its target; unchanged if that is a table the page lacks."""
        if link.kind != "table":
            return _button(content, **{f"data_{link.kind}": link.target})
        table = self.tables.get(link.target)
        return content if table is None else _button(content, data_table=table)

    def evidence(self, item: Evidence) -> Content:
        """Return the text of an evidence, with a link to its first event or time range."""
        if item.table in self.event_tables and item.rows:
            return _button(item.text, data_event=f"{item.table}:{item.rows[0]}")
        if item.windows_ns:
            start, end = item.windows_ns[0]
            span = f"{start - self.offset_ns},{end - self.offset_ns}"
            return _button(item.text, data_window=span)
        return item.text

    def command(self, words: str, *, has_files: bool = True) -> Markup:
        """Return the command that prints the same data, with the recordings' names."""
        names = [shlex.quote(name) for name in self.files] if has_files else []
        shown = [*names[:_FILES], *(["..."] if len(names) > _FILES else [])]
        copied = " ".join([words, *names])
        copy = element("button", "Copy", type="button", hidden="", data_copy=copied)
        if len(copied) > LONGEST:
            copy = Markup()  # a truncated command would do something else
        return element(
            "p",
            "Command: ",
            element("code", " ".join([words, *shown])),
            " ",
            copy,
            class_="wl-command",
        )


def links_of(diagnosis: Diagnosis, head: Mapping[str, Any]) -> Links:
    """Return the link targets of a page.

    Args:
        diagnosis: The diagnosis in the overview.
        head: Head of the container.
    """
    return Links(
        tuple(str(path).rpartition("/")[2] for path in diagnosis.meta["paths"]),
        {item["name"].partition(":")[0]: item["name"] for item in head["results"]},
        frozenset(head["tables"]),
        int(head["offset_ns"]),
    )


def _button(content: Content, **data: str) -> Markup:
    return element("button", content, type="button", disabled="", class_="wl-link", **data)
