"""Results as a Python shell prints them, and as a notebook shows them.

Names come from recordings and are hostile: in HTML every text is escaped, and characters that do
not print are visible. The HTML has no scripts, no style sheets and no links.
"""

from __future__ import annotations

import html as markup
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from warpline.render import RENDERERS, TERMINAL_ROWS, Options, screen
from warpline.render.cells import cells_of
from warpline.render.diagnosis import text as diagnosis_text
from warpline.render.diagnosis.devices import device_label
from warpline.render.diagnosis.lines import GAP, Lines
from warpline.render.escaping import visible
from warpline.result import (
    Breakdown,
    Check,
    Diagnosis,
    Document,
    Field,
    Finding,
    Result,
    Skipped,
    Texts,
)
from warpline.result.savings import saving_text
from warpline.result.shares import counted, part_shares, tenths
from warpline.units import (
    Unit,
    format_bytes,
    format_count,
    format_ns,
    format_rate,
    format_ratio,
    plural,
)

_OPTIONS = Options(row_limit=TERMINAL_ROWS)
_DEVICES = 4  # with all of their parts
_LONGEST = 1000  # characters of a text
_PER_STEP = " per step"
# Sections of the summary that its screen shows in a way of their own.
_ONLY_IN_SUMMARY = {"process_sum", "recording"}
_FORMATS: Mapping[Unit, Callable[[Any], str]] = {
    Unit.NS: format_ns,
    Unit.BYTES: format_bytes,
    Unit.BYTES_PER_S: format_rate,
    Unit.RATIO: format_ratio,
    Unit.COUNT: format_count,
}
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def text(shown: Document | Result | Finding) -> str:
    """Return what `print` writes: the screen of the command line, for a file."""
    if isinstance(shown, Finding):
        return "\n".join(_finding_lines(shown))
    document = Document("", {}, (shown,)) if isinstance(shown, Result) else shown
    render = RENDERERS.get("text").render
    if isinstance(document, Diagnosis):
        render = diagnosis_text.render
    elif _is_summary(document):
        render = screen.render
    out = io.StringIO()
    render(document, out, _OPTIONS)
    return out.getvalue().removesuffix("\n")


def html(shown: Document | Result | Finding) -> str:
    """Return what a notebook shows."""
    if isinstance(shown, Finding):
        return "".join(_finding(shown, is_open=True))
    if isinstance(shown, Result):
        return "".join(_result(shown))
    parts = _diagnosis(shown) if isinstance(shown, Diagnosis) else _document(shown)
    return f"<div>{''.join(parts)}</div>"


def _is_summary(document: Document) -> bool:
    return {section.name for section in document.sections} >= _ONLY_IN_SUMMARY


def _finding_lines(item: Finding) -> Iterator[str]:
    """Yield a finding with its evidence and how to verify the fix."""
    lines = Lines(_OPTIONS)
    yield lines.fit(f"{item.id} {item.severity}: {item.title}".strip())
    yield from lines.wrapped(item.claim, GAP)
    for name, content in _finding_facts(item):
        yield from lines.wrapped(f"{name}: {content}", GAP, GAP + " " * (len(name) + 2))


def _finding_facts(item: Finding) -> Iterator[tuple[str, str]]:
    for evidence in item.evidence:
        yield "Evidence", evidence.text
    if saving := saving_text(item, _PER_STEP):
        yield "Estimated saving", saving
    yield "Fix", item.fix
    yield "Verify", item.verify


def _diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _head(diagnosis)
    yield f"<p><strong>{_text(diagnosis.verdict)}</strong></p>"
    for item in diagnosis.breakdown[:_DEVICES]:
        yield from _device(item)
    if len(diagnosis.breakdown) > _DEVICES:
        yield _paragraph(f"{len(diagnosis.breakdown) - _DEVICES} more GPUs: see .breakdown")
    for place, finding in enumerate(diagnosis.findings):
        yield from _finding(finding, is_open=not place)
    yield from _checks(diagnosis.checks)


def _document(document: Document) -> Iterator[str]:
    yield from _head(document)
    for section in document.sections:
        if isinstance(section, Skipped):
            yield from _skipped(section)
        else:
            yield from _overview(section) if _is_summary(document) else _result(section)


def _head(document: Document) -> Iterator[str]:
    if document.title:
        yield f"<h4>{_text(document.title)}</h4>"
    if ended := document.meta.get("ended"):
        yield f"<p><strong>{_text(ended)}</strong></p>"
    yield from (_paragraph(f"Warning: {warning}") for warning in document.warnings)


def _device(item: Breakdown) -> Iterator[str]:
    parts, _ = counted(item)
    total_ns, per = sum(part.ns for part in parts), max(item.count, 1)
    time = f"{format_ns(total_ns)} in all"
    if item.count:
        time = f"{plural(item.count, 'step')}, mean {format_ns(total_ns / per)}"
    rows = (
        (part.category, part.kind, format_ns(part.ns / per), tenths(share), part.meaning)
        for part, share in zip(parts, part_shares(parts, total_ns), strict=True)
    )
    heads = ("part", "kind", "per step" if item.count else "time", "share", "meaning")
    styles = (_LEFT, _LEFT, _RIGHT, _RIGHT, _LEFT)
    yield from _table(f"{device_label(item)}: {time}", heads, styles, rows)


def _finding(item: Finding, *, is_open: bool) -> Iterator[str]:
    title = f"{item.id} {item.severity}: {item.title}".strip()
    yield f"<details{' open' if is_open else ''}><summary><strong>{_text(title)}</strong></summary>"
    yield _paragraph(item.claim)
    yield from (_paragraph(f"{name}: {content}") for name, content in _finding_facts(item))
    yield "</details>"


def _checks(checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    states = [check.state for check in checks]
    passed, failed = states.count("pass"), states.count("fail")
    unknown = len(states) - passed - failed
    yield _paragraph(f"Checklist: {passed} pass, {failed} fail, {unknown} unknown")
    rows = [(check.name, check.found, check.wanted) for check in checks if check.state == "fail"]
    if rows:
        yield from _table("Failed checks", ("check", "found", "target"), (_LEFT,) * 3, rows)


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
    return "" if value is None else _FORMATS.get(field.unit, str)(value)


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
