"""The page of a fleet: one self-contained HTML file with maps of ranks, steps and waits.

The data are columns by rank and step. Verdict, findings and tables are there without the script.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.errors import InputError
from warpline.ops.arrays import F64
from warpline.presentation.fleet import on_page, ranks_by_waits
from warpline.result.fleet import Fleet, FleetFinding, FleetRank
from warpline.units import format_ns, format_ratio
from warpline.viewer.columns import Packed, float32
from warpline.viewer.container import BlockWriter
from warpline.viewer.markup import Content, Markup, element
from warpline.viewer.page import Assets, app, page_of_blocks
from warpline.viewer.rank_pages import page_beside, page_names, relative
from warpline.viewer.report import Report, size_of
from warpline.viewer.static_page import blocks_html, with_code

SCHEMA_VERSION = 1
_RANKS = 16
LEAST_RATIO = 0.05  # of the step: differences from here on have the strongest color
_NO_SCRIPT = (
    "The maps need JavaScript. The script has no network access. Verdict, findings and tables work"
    " without JavaScript."
)


def make_fleet_report(found: Fleet, folder: Path, parts: Assets) -> Report:
    """Return the self-contained page.

    Args:
        found: What it shows.
        folder: The directory of the page: reports of single ranks in it are linked.
        parts: Its script and style sheets.

    Raises:
        InputError: There are dumps of flight recorders only.
    """
    grid = found.grid
    if grid is None:
        raise InputError(
            "dumps of flight recorders have no steps for a page", hint="use -o FILE.md, or json"
        )
    writer = BlockWriter()
    lengths = grid.step_ns
    is_known = lengths > 0
    columns = {
        "step": lengths,
        "exposed": grid.exposed_ns,
        "wait": grid.wait_ns,
        "caused": grid.caused_ns,
    }
    of_grid = {name: np.where(is_known, values, np.nan) for name, values in columns.items()}
    late = {item.name for item in found.stragglers}
    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "job",
        "title": found.title,
        "ranks": [
            {"name": rank.name, "host": rank.host, "late": rank.name in late}
            for rank in found.ranks
        ],
        "steps": [_step(number) for number in grid.step_index.tolist()],
        "least_ns": max(LEAST_RATIO * found.step_ns, 1.0),
        "grid": _part(writer, of_grid),
        "blocks_of_ranks": list(grid.blocks),
        "between": _part(writer, {"exposed": grid.between_ns}),
    }
    blocks = writer.blocks()
    head["blocks"] = [{"raw_bytes": block.raw_bytes} for block in blocks]
    title = f"{found.title} · fleet"
    pieces = list(page_of_blocks(title, _body(found, folder), head, blocks, parts))
    return Report(pieces, size_of(pieces), None, head)


def _step(number: int) -> str:
    return "whole recording" if number < 0 else f"step {number}"


def columns_part(writer: BlockWriter, columns: Sequence[Packed]) -> dict[str, Any]:
    """Add columns of one length to the blocks, and return where they are, for the page's head."""
    block, offset = writer.append("columns", columns)
    count = len(columns[0].data) // columns[0].planes
    described = [column.head() for column in columns]
    return {"block": block, "offset": offset, "count": count, "columns": described}


def _part(writer: BlockWriter, values: dict[str, F64]) -> dict[str, Any]:
    packed = [float32(name, column.reshape(-1)) for name, column in values.items()]
    return columns_part(writer, packed)


def _body(found: Fleet, folder: Path) -> Iterator[str]:
    shown = on_page(found)
    findings = map(_finding, found.findings)
    yield element("main", blocks_html(shown.before), findings, class_="wl-page wl-top")
    yield from app(_NO_SCRIPT)
    tables = blocks_html(shown.after)
    yield element(
        "div", _ranks(found, folder), tables, class_="wl-page", role="region", aria_label="Tables"
    )
    yield "\n"


def _finding(item: FleetFinding) -> Markup:
    saving = None
    if item.saving_ns is not None and item.step_ns is not None and item.saving_ns.high > 0:
        low, central, high = map(format_ns, item.saving_ns)
        saving = element(
            "p",
            f"Estimated saving: {central} per step ({low} to {high}); the step would take"
            f" {format_ns(item.step_ns.central)}.",
            class_="wl-saving",
        )
    severity = element("span", item.severity, class_=f"wl-severity wl-{item.severity}")
    return element(
        "article",
        element("h2", severity, f" {item.id} ", with_code(item.title)),
        saving,
        element("p", with_code(item.claim)),
        element("p", with_code(f"Fix: {item.fix}")),
        class_="wl-finding",
        id=f"wl-{item.id}",
    )


def _ranks(found: Fleet, folder: Path) -> Markup:
    """Return the table of the ranks that others wait for most, with their timelines."""
    chosen = ranks_by_waits(found)[:_RANKS]
    title = "Ranks that others wait for most"
    if len(chosen) < len(found.ranks):
        title += f", {len(chosen)} of {len(found.ranks):,}"
    headings = (
        "rank",
        "machine",
        "GPU",
        "step",
        "by itself",
        "exposed wait",
        "others wait",
        "arrives last",
        "timeline",
    )
    head = element("tr", (element("th", heading, scope="col") for heading in headings))
    recordings = {rank.path: relative(rank.path, folder) for rank in found.ranks}
    names = page_names(recordings)
    rows = (
        _rank(rank, _timeline(recordings[rank.path], names[rank.path], folder)) for rank in chosen
    )
    table = element(
        "table", element("thead", head), element("tbody", rows), class_="wl-table wl-fleet"
    )
    room = element("div", table, class_="wl-scroll", tabindex="0", role="region", aria_label=title)
    note = (
        "Times per step. Others wait: all other ranks together, where this one arrives last."
        " Timelines are pages of one rank beside this page; the commands, run in its directory,"
        " make them, and this page links them when it is written again."
    )
    return element("section", element("h2", title), room, element("p", note, class_="wl-facts"))


def _rank(rank: FleetRank, timeline: Content) -> Markup:
    texts = (
        rank.name.removeprefix("rank "),
        rank.host or "-",
        str(rank.device),
        *map(format_ns, (rank.step_ns, rank.own_ns, rank.exposed_wait_ns, rank.caused_ns)),
        format_ratio(rank.last_ratio),
    )
    return element("tr", (element("td", each) for each in texts), element("td", timeline))


def _timeline(recording: str, name: str, folder: Path) -> Content:
    """Return a link to the report of a rank beside the page, or the command that makes it."""
    return page_beside(folder, name, f"warpline report {shlex.quote(recording)}")
