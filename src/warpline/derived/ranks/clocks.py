"""How the clocks of several files of one run are brought together."""

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

_MOST_APART_NS = 2**62  # times of damaged files may be anything that 64 bits hold


class _Edge(NamedTuple):
    """How far the clock of a file is ahead of another's."""

    first: int
    second: int
    lead: Lead


def aligned(sources: Sequence[TableSource]) -> Trace:
    """Return several files as one trace, with their clocks brought together.

    UTC anchors align them first, then collectives, see `clock_alignment`. What cannot be read is
    no reason not to open the rest: then the anchors alone count, and a warning says so.
    """
    trace = Trace(merge(sources))
    try:
        alignment = clock_alignment(trace)
    except InputError as error:
        note = f"the clocks of the files were not compared by collectives: {error.message}"
        return Trace(merge(sources, Alignment({}, (note,), is_complete=False)))
    has_anchors = all(source.meta.origin_utc_ns is not None for source in sources)
    if alignment is None or (has_anchors and not alignment.moves_ns):
        return trace
    return Trace(merge(sources, alignment))


def clock_alignment(trace: Trace) -> Alignment | None:
    """Return by how much the files of a trace are to be moved so that their clocks agree.

    Collectives that all ranks wait in end together: the median difference of the ends on two
    ranks is how far their clocks are apart. A file is moved if that is more than the ends can be
    told by; else the anchors are taken to be right. None if the collectives tell nothing.

    Args:
        trace: Of several files, as their UTC anchors align them.
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


def _between_files(found: CollectiveMatches, files: tuple[int, ...]) -> list[_Edge]:
    """Return what is known of the clocks of two files, from the most collectives first."""
    process = found.lane_process
    edges = [
        _Edge(_file(process, lead.first, files), _file(process, lead.second, files), lead)
        for lead in found.leads
    ]
    apart = (edge for edge in edges if edge.first != edge.second)
    return sorted(apart, key=lambda edge: -edge.lead.count)


def _file(process: I64, lane: int, files: tuple[int, ...]) -> int:
    return files[int(process[lane])]


def _reached(start: int, edges: Iterable[_Edge]) -> dict[int, tuple[float, _Edge | None]]:
    """Return how far each file's clock is ahead of the first's, where a chain of ranks tells it."""
    found: dict[int, tuple[float, _Edge | None]] = {start: (0.0, None)}
    rest = list(edges)
    while True:
        edge = next((e for e in rest if (e.first in found) != (e.second in found)), None)
        if edge is None:
            return found
        if edge.first in found:
            found[edge.second] = found[edge.first][0] + edge.lead.lead_ns, edge
        else:
            found[edge.first] = found[edge.second][0] - edge.lead.lead_ns, edge


def _is_moved(lead_ns: float, edge: _Edge) -> bool:
    return clock_error_ns(edge.lead.spread_ns) < abs(lead_ns) < _MOST_APART_NS


def _note(trace: Trace, file: int, move_ns: int, lead: Lead) -> str:
    path = trace.meta.paths[file]
    text = (
        f"the clock of {path.name} was moved by {move_ns / 1e6:+,.3f} ms, so that"
        f" {plural(lead.count, 'collective')} end together on its rank and another, 9 in 10"
        f" within {format_ns(lead.spread_ns)}"
    )
    if abs(lead.drift_ns) > clock_error_ns(lead.spread_ns):
        text += f"; it drifts by {format_ns(abs(lead.drift_ns))} over the recording"
    return text
