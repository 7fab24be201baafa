"""Results as a Python shell prints them, and as a notebook shows them.

Names come from recordings and are hostile: in HTML every text is escaped, and characters that do
not print are visible. The HTML has no scripts, no style sheets and no links.
"""

from __future__ import annotations

import html as markup
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from warpline.presentation import (
    Block,
    FindingBlock,
    Head,
    Items,
    Line,
    Section,
    Table,
    Waterfall,
)
from warpline.presentation import comparison as comparisons
from warpline.presentation import graphcheck as graph_checks
from warpline.presentation import kernel_comparison as of_kernels
from warpline.presentation.findings import finding_alone
from warpline.presentation.outlines import notebook
from warpline.render import RENDERERS, TERMINAL_ROWS, Options, comparison, graphcheck, screen
from warpline.render.cells import cells_of
from warpline.render.diagnosis import text as diagnosis_text
from warpline.render.diagnosis.lines import GAP, Lines
from warpline.render.escaping import visible
from warpline.result import (
    Diagnosis,
    Document,
    Field,
    Finding,
    Result,
    Skipped,
    Texts,
)
from warpline.result.comparison import Comparison
from warpline.result.graphcheck import GraphCheck
from warpline.result.kernel_comparison import KernelComparison
from warpline.units import (
    format_value,
    plural,
)

_OPTIONS = Options(row_limit=TERMINAL_ROWS)
_LONGEST = 1000  # characters of a text
# Sections of the summary that its screen shows in a way of their own.
_ONLY_IN_SUMMARY = {"process_sum", "recording"}
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def text(shown: Document | Result | Finding | GraphCheck) -> str:
    """Return what `print` writes: the screen of the command line, for a file."""
    if isinstance(shown, Finding):
        return "\n".join(_finding_lines(finding_alone(shown)))
    if isinstance(shown, GraphCheck):
        checked = io.StringIO()
        graphcheck.write_text(shown, checked, _OPTIONS)
        return checked.getvalue().removesuffix("\n")
    document = Document("", {}, (shown,)) if isinstance(shown, Result) else shown
    render = RENDERERS.get("text").render
    if isinstance(document, Diagnosis):
        render = diagnosis_text.render
    elif isinstance(document, Comparison | KernelComparison):
        render = comparison.render_text
    elif _is_summary(document):
        render = screen.render
    out = io.StringIO()
    render(document, out, _OPTIONS)
    return out.getvalue().removesuffix("\n")


def html(shown: Document | Result | Finding | GraphCheck) -> str:
    """Return what a notebook shows."""
    if isinstance(shown, Finding):
        return "".join(_finding(finding_alone(shown), is_open=True))
    if isinstance(shown, Result):
        return "".join(_result(shown))
    if isinstance(shown, GraphCheck):
        parts = _blocks(graph_checks.graphcheck(shown).blocks)
    elif isinstance(shown, Diagnosis):
        parts = _blocks(notebook(shown).blocks)
    elif isinstance(shown, Comparison):
        parts = chain(_blocks(comparisons.notebook(shown).blocks), _tables(shown))
    elif isinstance(shown, KernelComparison):
        parts = chain(_blocks(of_kernels.markdown(shown).blocks), _tables(shown))
    else:
        parts = _document(shown)
    return f"<div>{''.join(parts)}</div>"


def _is_summary(document: Document) -> bool:
    return {section.name for section in document.sections} >= _ONLY_IN_SUMMARY


def _finding_lines(item: FindingBlock) -> Iterator[str]:
    """Yield a finding with its evidence and how to verify the fix."""
    lines = Lines(_OPTIONS)
    yield lines.fit(item.heading)
    yield from lines.wrapped(item.claim, GAP)
    for name, content in _finding_facts(item):
        yield from lines.wrapped(f"{name}: {content}", GAP, GAP + " " * (len(name) + 2))


def _finding_facts(item: FindingBlock) -> Iterator[tuple[str, str]]:
    yield from (("Evidence", evidence.text) for evidence in item.evidence)
    if item.saving:
        yield "Estimated saving", item.saving
    yield from item.facts


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the blocks of a presentation; the first finding is open."""
    is_first = True
    for block in blocks:
        match block:
            case Head():
                yield from _head(block.title, block.ended, block.warnings)
                verdict = " ".join(filter(None, (block.verdict, block.advice)))
                yield f"<p><strong>{_text(verdict)}</strong></p>"
            case Line():
                yield _paragraph(block.text)
            case Section():
                if block.title:
                    yield f"<p><strong>{_text(block.title)}</strong></p>"
                yield from _blocks(block.blocks)
            case Items():
                items = ("".join(cell.text for cell in item) for item in block.items)
                yield f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"
            case Waterfall():
                yield from _table("", *_waterfall(block))
            case Table():
                heads = [column.heading for column in block.columns]
                styles = [_RIGHT if column.is_number else _LEFT for column in block.columns]
                rows = ([cell.text for cell in row.cells] for row in block.rows)
                yield from _table(block.title, heads, styles, rows)
            case FindingBlock():
                yield from _finding(block, is_open=is_first)
                is_first = False


def _waterfall(
    block: Waterfall,
) -> tuple[Sequence[str], Sequence[str], Iterable[Sequence[str]]]:
    """Return headings, styles and rows of a waterfall as a table."""
    heads = (block.heading, "before", "after", "difference")
    rows = ((row.label, row.before, row.after, row.delta) for row in block.rows)
    return heads, (_LEFT, _RIGHT, _RIGHT, _RIGHT), rows


def _document(document: Document) -> Iterator[str]:
    yield from _head(document.title, document.meta.get("ended"), document.warnings)
    yield from _tables(document)


def _tables(document: Document) -> Iterator[str]:
    for section in document.sections:
        if isinstance(section, Skipped):
            yield from _skipped(section)
        else:
            yield from _overview(section) if _is_summary(document) else _result(section)


def _head(title: str, ended: str | None, warnings: Sequence[str]) -> Iterator[str]:
    if title:
        yield f"<h4>{_text(title)}</h4>"
    if ended:
        yield f"<p><strong>{_text(ended)}</strong></p>"
    yield from (_paragraph(f"Warning: {warning}") for warning in warnings)


def _finding(item: FindingBlock, *, is_open: bool) -> Iterator[str]:
    title = _text(item.heading)
    yield f"<details{' open' if is_open else ''}><summary><strong>{title}</strong></summary>"
    yield _paragraph(item.claim)
    yield from (_paragraph(f"{name}: {content}") for name, content in _finding_facts(item))
    yield "</details>"


def _result(result: Result) -> Iterator[str]:
    shown = result.head(TERMINAL_ROWS)
    columns = cells_of(shown, _OPTIONS, str)
    heads = [column.heading for column in columns]
    styles = [_RIGHT if column.is_number else _LEFT for column in columns]
    rows = zip(*(column.texts(slice(0, len(shown))) for column in columns), strict=True)
    yield from _table(f"{result.title} ({result.name})", heads, styles, rows)
    if len(result) > len(shown):
        hidden = plural(len(result) - len(shown), "more row")
        yield _paragraph(f"{hidden}: to_polars() returns all")
    yield from (_paragraph(f"Note: {note}") for note in result.notes)


def _overview(result: Result) -> Iterator[str]:
    """Yield a table with numbers in readable units, which each cell states."""
    heads = [_heading(field) for field in result.fields]
    styles = [_LEFT if isinstance(v, Texts) else _RIGHT for v in result.columns.values()]
    rows = (
        [_cell(field, value) for field, value in zip(result.fields, row, strict=True)]
        for row in result.rows()
    )
    yield from _table(result.title, heads, styles, rows)
    yield from (_paragraph(f"Note: {note}") for note in result.notes)


def _heading(field: Field) -> str:
    return field.name.removesuffix(f"_{field.unit.value}") if field.unit.value else field.name


def _cell(field: Field, value: Any) -> str:
    return "" if value is None else format_value(value, field.unit)


def _skipped(section: Skipped) -> Iterator[str]:
    hint = f" ({section.hint})" if section.hint else ""
    yield _paragraph(f"{section.name}: {section.reason}{hint}")


def _table(
    caption: str, heads: Sequence[str], styles: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    yield f'<table><caption style="{_LEFT}"><strong>{_text(caption)}</strong></caption><thead>'
    yield _row("th", heads, styles)
    yield "</thead><tbody>"
    yield from (_row("td", row, styles) for row in rows)
    yield "</tbody></table>"


def _row(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    inner = (
        f'<{tag} style="{style}">{_text(cell)}</{tag}>'
        for cell, style in zip(cells, styles, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"


def _paragraph(content: str) -> str:
    return f"<p>{_text(content)}</p>"


def _text(content: str) -> str:
    short = content if len(content) <= _LONGEST else content[: _LONGEST - 1] + "…"
    return markup.escape(visible(short))
