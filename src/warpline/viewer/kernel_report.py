"""The page of profiled kernels: one self-contained HTML file with their summary, sections and code.

The data are JSON, as `warpline kernels --json` prints it: a head, which the page reads first, and a
gzipped block for each launch and each function, which the page decodes when it shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from warpline.errors import UsageError
from warpline.units import format_bytes, format_ns, format_ratio, plural
from warpline.viewer.container import BlockWriter
from warpline.viewer.markup import Markup, element, join
from warpline.viewer.page import Assets, app, page_of_blocks
from warpline.viewer.report import Report, size_of

SCHEMA_VERSION = 1
_MOST_STATIC = 50  # rows of the table that is shown without the script
_NO_SCRIPT = (
    "Sections and source need JavaScript. The script has no network access. The table above works"
    " without JavaScript."
)
_STATIC_HEADINGS = ("ID", "Kernel", "Duration", "Compute", "Memory", "Largest finding")

Row = dict[str, Any]
"""A launch in the summary: see `Row` in ``viewer/src/kernels/data/document.ts``."""


@dataclass(frozen=True)
class KernelContent:
    """What the page shows.

    Attributes:
        title: Names of the recordings.
        facts: Labels and values: the GPU, the program.
        notes: What the page does not have, and why.
        launches: Number of launches, also of those without a row.
        total_ns: Their time.
        by_kernel: Names, launches and total time of each kernel, the longest first.
        rows: The summary, in the order of launches.
        metrics: Names of the metrics of launches.
        kernels: Place of the row and JSON of launches with details, the most important first.
            ``metrics`` of each are values, in the order of the names.
        code: JSON of functions, those with the most samples first. ``kernels`` of each are IDs
            of launches.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    launches: int
    total_ns: int
    by_kernel: Sequence[dict[str, Any]]
    rows: Sequence[Row]
    metrics: Sequence[str]
    kernels: Iterable[tuple[int, dict[str, Any]]]
    code: Sequence[dict[str, Any]]


def make_kernel_report(
    content: KernelContent, parts: Assets, *, max_bytes: int | None = None
) -> Report:
    """Return the self-contained page.

    Args:
        content: What it shows.
        parts: Its script and style sheets.
        max_bytes: Size limit of the file. To meet it, sections of short launches are left out.

    Raises:
        UsageError: The file exceeds the limit even without any sections.
    """
    packed = _Packed(content)
    report = packed.report(parts, len(packed.kernels))
    count = len(packed.kernels)
    while max_bytes is not None and report.size > max_bytes:
        if count == 0:
            raise UsageError(
                f"the report needs at least {format_bytes(report.size)}, but the limit is"
                f" {format_bytes(max_bytes)}",
                hint="raise the limit, or choose fewer recordings",
            )
        count = packed.fitting(count, report.size - max_bytes)
        report = packed.report(parts, count)
    return report


class _Packed:
    """The content with its blocks: those of launches can be left out, the last ones first."""

    def __init__(self, content: KernelContent) -> None:
        self._content = content
        writer = BlockWriter()
        code = [writer.add("json", _json(item)) for item in content.code]
        self.kernels = []
        for place, kernel in content.kernels:
            writer.add("json", _json(kernel))
            self.kernels.append(place)
        self._blocks = writer.blocks()
        self._first = len(code)

    def fitting(self, count: int, excess: int) -> int:
        """Return how many launches keep their sections if so many bytes must go."""
        while count and excess > 0:
            count -= 1
            excess -= -(-len(self._blocks[self._first + count].data) // 3) * 4
        return count

    def report(self, parts: Assets, count: int) -> Report:
        """Return the page with the sections of the first launches."""
        content = self._content
        blocks = list(self._blocks[: self._first + count])
        left_out = len(self.kernels) - count
        thinned = None
        if left_out:
            thinned = (
                f"To fit the size limit, the sections of {plural(left_out, 'launch', 'launches')}"
                " were left out."
            )
        numbers = {place: self._first + at for at, place in enumerate(self.kernels[:count])}
        rows = [
            {**row, "block_number": numbers.get(place)} for place, row in enumerate(content.rows)
        ]
        writer = BlockWriter()
        writer.add("json", _json(rows))
        blocks += writer.blocks()
        head = {
            "schema_version": SCHEMA_VERSION,
            "title": content.title,
            "facts": content.facts,
            "notes": [*content.notes, *([thinned] if thinned else [])],
            "launches": content.launches,
            "total_ns": content.total_ns,
            "by_kernel": content.by_kernel,
            "metrics": content.metrics,
            "rows_block": len(blocks) - 1,
            "code": [_code_row(item, number) for number, item in enumerate(content.code)],
            "blocks": [{"raw_bytes": block.raw_bytes} for block in blocks],
        }
        title = f"{content.title} · kernels"
        pieces = list(page_of_blocks(title, _body(content), head, blocks, parts))
        return Report(pieces, size_of(pieces), thinned, head)


def _code_row(code: dict[str, Any], block: int) -> dict[str, Any]:
    return {
        "function": code["function"],
        "name": code["name"],
        "samples": code["samples"],
        "too_few": code["too_few"],
        "stall": _most_frequent_stall(code),
        "kernels": code["kernels"],
        "block_number": block,
    }


def _most_frequent_stall(code: dict[str, Any]) -> str | None:
    """Return the label of the reason with the most samples; None without samples."""
    stalls = [
        (total, metric["label"])
        for metric, total in zip(code["metrics"], code["totals"], strict=True)
        if metric["name"].startswith("stall_") and total
    ]
    return max(stalls, key=lambda stall: stall[0])[1] if stalls else None


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _body(content: KernelContent) -> Iterator[str]:
    yield element("div", _static(content), id="warpline-static")
    yield from app(_NO_SCRIPT)


def _static(content: KernelContent) -> Markup:
    """Return what is shown without the script: the longest launches."""
    facts = " · ".join(f"{label} {value}" for label, value in content.facts)
    longest = sorted(content.rows, key=lambda row: -(row["duration_ns"] or 0))[:_MOST_STATIC]
    headings = (element("th", heading, scope="col") for heading in _STATIC_HEADINGS)
    rows = (element("tr", map(_cell, _static_cells(row))) for row in longest)
    table = element(
        "table",
        element("thead", element("tr", headings)),
        element("tbody", rows),
        class_="wl-table",
    )
    head = (element("h1", content.title), element("p", facts, class_="wl-facts"))
    notes = (element("p", note) for note in content.notes)
    functions = element("ul", (element("li", _function(item)) for item in content.code))
    shown = table if content.rows else functions
    return element("main", join(head), join(notes), shown, class_="wl-page")


def _cell(value: str) -> Markup:
    return element("td", value)


def _function(code: dict[str, Any]) -> str:
    return f"{code['name']}: {plural(code['samples'], 'sample')}"


def _static_cells(row: Row) -> tuple[str, ...]:
    time, saving = row["duration_ns"], row["saving_ns"]
    finding = row["title"] or ""
    if saving:
        finding += f": saves {'at most ' if row['outcome'] == 'floor' else ''}{format_ns(saving)}"
    return (
        str(row["id"]),
        row["name"],
        "" if time is None else format_ns(time),
        *("" if row[of] is None else format_ratio(row[of]) for of in _RATIOS),
        finding,
    )


_RATIOS = ("compute_ratio", "memory_ratio")
