"""Writes the presentation of a diagnosis as text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.presentation import (
    Bar,
    Block,
    Commands,
    Entries,
    FindingBlock,
    Head,
    Items,
    Line,
    Presentation,
    Section,
    Table,
    Waterfall,
)
from warpline.presentation.outlines import checklist_screen, screen
from warpline.render import Options
from warpline.render.diagnosis.bars import bar_lines
from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.diagnosis.tables import table_lines
from warpline.render.diagnosis.waterfall import waterfall_lines
from warpline.render.escaping import display_width, pad
from warpline.result import Diagnosis, Document

_FILES = 3  # in the suggested commands
_STATE = len("unknown")
_LEAST_TEXT = 40  # columns: narrower, the text of an entry goes below its name
_FINDING = GAP + " " * (4 + 6 + 1)  # the id, the severity, and a gap
_HANG = " " * len("Fix: ")
_COLOR_OF_SEVERITY = {"high": "\x1b[31m", "medium": "\x1b[33m", "low": "", "info": DIM}
_COLOR_OF_STATE = {"fail": "\x1b[31m", "pass": "\x1b[32m", "unknown": DIM}


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    write(screen(document), out, options)


def render_checklist(document: Document, out: TextIO, options: Options) -> None:
    """Write the checklist of a diagnosis with values, targets and reasons."""
    assert isinstance(document, Diagnosis)
    write(checklist_screen(document), out, options)


def write(presentation: Presentation, out: TextIO, options: Options) -> None:
    """Write the blocks of a presentation, separated by blank lines."""
    writer = _Writer(Lines(options), presentation.recordings)
    texts = ("\n".join(map(str.rstrip, writer.lines(block))) for block in presentation.blocks)
    out.write("\n\n".join(filter(None, texts)) + "\n")


class _Writer:
    """Writes each kind of block as lines."""

    def __init__(self, lines: Lines, recordings: Sequence[str]) -> None:
        self._lines = lines
        files = [lines.clean(shlex.quote(path)) for path in recordings[:_FILES]]
        self._recordings = [*files, *(["..."] if len(recordings) > _FILES else [])]

    def lines(self, block: Block, indent: str = "") -> Iterator[str]:
        """Yield the lines of a block; nothing for what a terminal cannot show."""
        match block:
            case Head():
                yield from self._head(block)
            case Section():
                yield from self._section(block)
            case Line():
                style = DIM if block.is_faint else ""
                yield from self._lines.wrapped(block.text, indent, indent + GAP, style)
            case Items():
                for item in block.items:
                    text = "".join(cell.text for cell in item)
                    yield from self._lines.wrapped(text, indent, indent + GAP)
            case Table():
                yield from table_lines(self._lines, block, indent)
            case Bar():
                yield from bar_lines(self._lines, block)
            case Waterfall():
                yield from waterfall_lines(self._lines, block)
            case FindingBlock():
                yield from self._finding(block)
            case Entries():
                yield from self._entries(block)
            case Commands():
                yield from self._commands(block, indent)

    def _head(self, head: Head) -> Iterator[str]:
        yield self._lines.styled(self._lines.fit(head.title), BOLD)
        for text, style in ((head.ended, BOLD), (head.verdict, ""), (head.advice, "")):
            if text:
                yield from self._lines.wrapped(text, GAP, style=style)

    def _section(self, section: Section) -> Iterator[str]:
        if section.summary:
            yield f"{self._lines.styled(section.title, BOLD)}{GAP}{section.summary}"
        elif section.title:
            yield from self._lines.wrapped(section.title, "", GAP, style=BOLD)
        for block in section.blocks:
            yield from self.lines(block, GAP if section.title else "")

    def _finding(self, item: FindingBlock) -> Iterator[str]:
        lines = self._lines
        mark = lines.styled(f"{item.severity:6}", _COLOR_OF_SEVERITY[item.severity])
        title = lines.broken(item.title, lines.width - len(_FINDING))
        yield f"{GAP}{item.id:4}{mark} {lines.styled(title[0], BOLD)}"
        yield from (_FINDING + lines.styled(line, BOLD) for line in title[1:])
        yield from lines.wrapped(item.claim, _FINDING)
        saving = (("Estimated saving", item.saving),) if item.saving else ()
        for name, text in (*saving, *item.facts):
            yield from lines.wrapped(f"{name}: {text}", _FINDING, _FINDING + _HANG)

    def _entries(self, block: Entries) -> Iterator[str]:
        lines, entries = self._lines, block.entries
        width = max((display_width(entry.name) for entry in entries), default=0)
        left = _STATE + len(GAP) + width + len(GAP)
        is_narrow = lines.width - left < _LEAST_TEXT
        indent = " " * (_STATE + len(GAP) if is_narrow else left)
        for entry in entries:
            state = lines.styled(f"{entry.state:{_STATE}}", _COLOR_OF_STATE[entry.state])
            text = list(lines.wrapped(entry.text, indent))
            if is_narrow:
                yield f"{state}{GAP}{entry.name}"
            else:
                yield f"{state}{GAP}{pad(entry.name, width)}{GAP}{text.pop(0).strip()}"
            yield from text
            yield from lines.wrapped(entry.remark, indent, style=DIM)

    def _commands(self, block: Commands, indent: str) -> Iterator[str]:
        """Yield the commands below one another. Never cut a command: users copy it."""
        first = f"{block.label}: " if block.label else ""
        files = self._recordings if block.takes_recordings else []
        for place, command in enumerate(block.commands):
            said = " ".join([self._lines.clean(command), *files])
            yield indent + (" " * len(first) if place else first) + said
