"""Writes the presentation of a diagnosis in Markdown, for issues and pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TextIO

from warpline.presentation import (
    Block,
    Cell,
    FindingBlock,
    Head,
    Items,
    Line,
    Presentation,
    Section,
    Table,
    Waterfall,
)
from warpline.presentation.outlines import checklist_markdown, markdown, report_markdown
from warpline.render import Options
from warpline.render.markdown import code, plain
from warpline.result import Diagnosis, Document, Result


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    write(markdown(document), out, options)


def render_checklist(document: Document, out: TextIO, options: Options) -> None:
    """Write the checklist of a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    write(checklist_markdown(document), out, options)


def report_text(
    diagnosis: Diagnosis,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Result],
    missing: Sequence[tuple[str, str]],
) -> str:
    """Return a report as text; see `report_markdown`."""
    out = StringIO()
    write(report_markdown(diagnosis, facts, tables, missing), out, Options())
    return out.getvalue()


def write(presentation: Presentation, out: TextIO, options: Options) -> None:
    """Write the blocks of a presentation."""
    writer = _Writer(options)
    paragraphs = (text for block in presentation.blocks for text in writer.paragraphs(block))
    out.write("\n\n".join(paragraphs) + "\n")


class _Writer:
    """Writes blocks as paragraphs of Markdown in which names never act as markup."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def paragraphs(self, block: Block) -> Iterator[str]:
        """Yield the paragraphs of a block; nothing for what Markdown cannot show."""
        match block:
            case Head():
                yield from self._head(block)
            case Section():
                yield f"### {self._text(block.title)}"
                for inner in block.blocks:
                    yield from self.paragraphs(inner)
            case Line():
                yield self._text(block.text)
            case Items():
                yield "\n".join(f"- {''.join(map(self._cell, item))}" for item in block.items)
            case Table():
                yield "\n".join(self._table(block))
            case Waterfall():
                yield "\n".join(self._waterfall(block))
            case FindingBlock():
                yield from self._finding(block)

    def _head(self, head: Head) -> Iterator[str]:
        yield f"## {self._text(head.title)}"
        if head.warnings:
            yield "\n".join(f"> **Warning:** {self._text(text)}" for text in head.warnings)
        said = (head.ended, " ".join(filter(None, (head.verdict, head.advice))))
        yield "\n".join(f"**{self._text(text)}**" for text in said if text)

    def _table(self, table: Table) -> Iterator[str]:
        yield _row([self._text(column.heading) for column in table.columns])
        yield _row(["---:" if column.is_number else ":---" for column in table.columns])
        for row in table.rows:
            label, *cells = map(self._cell, row.cells)
            yield _row([f"**{label}**" if row.is_sum else label, *cells])

    def _waterfall(self, block: Waterfall) -> Iterator[str]:
        yield _row([self._text(block.heading), "before", "after", "difference"])
        yield _row([":---", "---:", "---:", "---:"])
        for item in block.rows:
            texts = [self._text(text) for text in (item.label, *item[1:4])]
            yield _row(
                [f"**{text}**" if text else "" for text in texts] if not item.direction else texts
            )

    def _finding(self, item: FindingBlock) -> Iterator[str]:
        rule = code(item.rule, self._options)
        yield f"### {item.id} {item.severity}: {self._text(item.title)} ({rule})"
        yield self._text(item.claim)
        saving = (("Estimated saving", item.saving),) if item.saving else ()
        evidence = (("Evidence", cell.text) for cell in item.evidence)
        facts = (*evidence, *saving, *item.facts)
        yield "\n".join(f"- {name}: {self._text(text)}" for name, text in facts)

    def _cell(self, cell: Cell) -> str:
        return code(cell.text, self._options) if cell.is_code else self._text(cell.text)

    def _text(self, text: str) -> str:
        return plain(text, self._options)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
