"""Alignment of the clocks of several files of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpline.derived.collectives.matches import (
    CollectiveMatches,
    Lead,
    clock_error_ns,
    collective_matches,
)
from warpline.errors import InputError
from warpline.ops.arrays import I64
from warpline.trace import TableSource, Trace
from warpline.trace.merge import Alignment, merge
from warpline.units import format_ns, plural

_MOST_APART_NS = 2**62  # damaged files may hold any 64-bit time


class _Edge(NamedTuple):
    """The offset between the clocks of two files."""

    first: int
    second: int
    lead: Lead


def aligned(sources: Sequence[TableSource]) -> Trace:
    """Return several files as one trace with aligned clocks.

    UTC anchors align the clocks first, then collectives, see `clock_alignment`. If the collectives
    cannot be read, only the anchors are used, with a warning.
    """
    trace = Trace(merge(sources))
    try:
        alignment = clock_alignment(trace)
    except InputError as error:
        note = f"file clocks not aligned by collectives: {error.message}"
        return Trace(merge(sources, Alignment({}, (note,), is_complete=False)))
    has_anchors = all(source.meta.origin_utc_ns is not None for source in sources)
    if alignment is None or (has_anchors and not alignment.moves_ns):
        return trace
    return Trace(merge(sources, alignment))


def clock_alignment(trace: Trace) -> Alignment | None:
    """Return the shifts that align the clocks of a trace's files.

    Collectives in which all ranks wait end at the same time, so the median difference of the ends
    on two ranks is the offset of their clocks. A file is shifted if the offset exceeds the error of
    the ends; otherwise its anchor is trusted. None if the collectives give no offsets.

    Args:
        trace: A trace of several files, aligned by their UTC anchors.
    """
    files = trace.meta.file_of_process
    if len(set(files)) < 2:
        return None
    edges = _between_files(collective_matches(trace), files)
    if not edges:
        return None
    reached = _reached(files[0], edges)
    moved = {
        file: (-round(lead_ns), edge.lead)
        for file, (lead_ns, edge) in sorted(reached.items())
        if edge is not None and _is_moved(lead_ns, edge)
    }
    return Alignment(
        {file: move for file, (move, _) in moved.items()},
        tuple(_note(trace, file, move, lead) for file, (move, lead) in moved.items()),
        len(reached) == len(set(files)),
    )


def _between_files(matches: CollectiveMatches, files: tuple[int, ...]) -> list[_Edge]:
    """Return the offsets between pairs of files, those from the most collectives first."""
    process = matches.rank_process
    edges = [
        _Edge(_file(process, lead.first, files), _file(process, lead.second, files), lead)
        for lead in matches.leads
    ]
    apart = (edge for edge in edges if edge.first != edge.second)
    return sorted(apart, key=lambda edge: -edge.lead.count)


def _file(process: I64, rank: int, files: tuple[int, ...]) -> int:
    return files[int(process[rank])]


def _reached(start: int, edges: Iterable[_Edge]) -> dict[int, tuple[float, _Edge | None]]:
    """Return how far each file's clock is ahead of the first, where a chain of ranks links them."""
    reached: dict[int, tuple[float, _Edge | None]] = {start: (0.0, None)}
    rest = list(edges)
    while True:
        edge = next((e for e in rest if (e.first in reached) != (e.second in reached)), None)
        if edge is None:
            return reached
        if edge.first in reached:
            reached[edge.second] = reached[edge.first][0] + edge.lead.lead_ns, edge
        else:
            reached[edge.first] = reached[edge.second][0] - edge.lead.lead_ns, edge


def _is_moved(lead_ns: float, edge: _Edge) -> bool:
    return clock_error_ns(edge.lead.spread_ns) < abs(lead_ns) < _MOST_APART_NS


def _note(trace: Trace, file: int, move_ns: int, lead: Lead) -> str:
    path = trace.meta.paths[file]
    text = (
        f"the clock of {path.name} was moved by {move_ns / 1e6:+,.3f} ms to align the ends of"
        f" {plural(lead.count, 'collective')} with another rank (90% within"
        f" {format_ns(lead.spread_ns)})"
    )
    if abs(lead.drift_ns) > clock_error_ns(lead.spread_ns):
        text += f"; it drifts by {format_ns(abs(lead.drift_ns))} over the recording"
    return text
