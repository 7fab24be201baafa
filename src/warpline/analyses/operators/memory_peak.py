"""memory_peak: the blocks in use at peak memory, and who allocated them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.memory.allocations import ALLOCATORS, Peak, allocations, memory_peaks
from warpline.derived.memory.labels import By, Labels, labels_of_allocations
from warpline.derived.memory.lifetimes import were_there
from warpline.derived.memory.places import counting_notes, pids_of, place_names
from warpline.derived.texts import labelled
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

_TOO_LARGE = 1 << 63
NAME = "memory_peak"
TITLE = "Peak memory by operator"
HINT = "profile with --pytorch=memory, --cuda-memory-usage=true, or torch.profiler(profile_memory)"
WHILE_RECORDING, EARLIER = "While recording", "Before"
FIELDS = (
    Field("in_use_bytes", Unit.BYTES, "Bytes in use at the peak.", "In Use (MB)", 1e-6, 3),
    Field("peak_ratio", Unit.RATIO, "Share of all bytes in use at the peak.", "Peak (%)", 100.0, 1),
    Field("blocks", Unit.COUNT, "Number of blocks.", "Blocks"),
    Field("largest_bytes", Unit.BYTES, "Size of the largest block.", "Largest (MB)", 1e-6, 3),
    Field("age_ns", Unit.NS, "Time from the first of these allocations to the peak.", "Age (ns)"),
    Field("time_ns", Unit.NS, "Time of the peak.", "Peak At (ns)"),
    Field(
        "reserved_bytes",
        Unit.BYTES,
        "Bytes reserved from the driver at the peak.",
        "Reserved (MB)",
        1e-6,
        3,
    ),
    Field("place", Unit.NONE, "GPU index, or Host.", "Place"),
    Field("memory", Unit.NONE, "Memory kind.", "Memory", is_detail=True),
    Field("allocator", Unit.NONE, "Allocator: Framework or Driver.", "Allocator", is_detail=True),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
    Field("allocated", Unit.NONE, "Allocated while recording, or before.", "Allocated"),
)
_NAMES: Mapping[By, Field] = {
    "kind": Field("kind", Unit.NONE, "What the blocks are for.", "Kind"),
    "module": Field("module", Unit.NONE, "Enclosing modules, outermost first.", "Module"),
    "line": Field("line", Unit.NONE, "Line of the program that allocated the blocks.", "Line"),
    "operator": Field(
        "operator", Unit.NONE, "Outermost operator that allocated the blocks.", "Operator"
    ),
}
_UNLESS_CHOSEN: tuple[By, ...] = ("module", "operator")
KEY = ("place", "memory", "allocator", "pid", "allocated")


class _Row(NamedTuple):
    """Blocks of one pool from one operator in one module, or those from before the recording."""

    peak: int
    in_use_bytes: int
    ratio: float
    blocks: int | None
    largest_bytes: int | None
    age_ns: int | None
    names: tuple[str | None, ...]
    is_earlier: bool


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
    arguments={
        by: f"group the blocks by {field.heading.lower()} only" for by, field in _NAMES.items()
    },
)
def memory_peak(trace: Trace, arguments: Arguments) -> Result:
    """Memory in use at its peak, by the operator and module that allocated it.

    What it measures: For each GPU and process, and for host memory, the first time of peak memory
        and the blocks in use at that time, by allocating operator and module.
    Why it matters: Peak memory decides whether a larger batch or model fits. The table separates
        activations, gradients and optimizer state, and shows blocks that live too long.
    How it is computed: The peak is the maximum of the bytes in use in memory_timeline. A block is
        in use from its allocation to the next event at its address. Its operator is the outermost
        one open on the allocating thread: aten::linear, not the aten::empty inside it. The module
        is that of op_sum:module. The line is the innermost frame of the Python stack that is not of
        an installed package. Memory in use that was allocated before the recording is Before.
        Largest peak first, and within it, most bytes first.
    Limits: Blocks allocated outside all operators have no operator. For driver memory, only blocks
        are known. Blocks, not tensors, are counted: the allocator rounds sizes up. Memory that
        the framework's allocator gets from the driver counts for both allocators.
    Source: Warpline.
    """
    peaks = memory_peaks(trace)
    chosen = [by for by in _NAMES if by in arguments] or _UNLESS_CHOSEN
    labels = [labels_of_allocations(trace, by) for by in chosen]
    order = sorted(range(len(peaks)), key=lambda place: -peaks[place].allocated_bytes)
    rows = [row for place in order for row in _rows(trace, place, peaks[place], labels)]
    of_peak = np.array([row.peak for row in rows], np.int64)
    pools = [peak.pool for peak in peaks]
    reserved = np.array([peak.reserved_bytes for peak in peaks], np.int64)[of_peak]
    time = np.array([peak.time_ns for peak in peaks], np.int64)[of_peak]
    before = np.array([row.is_earlier for row in rows], np.int64)
    columns: dict[str, Values] = {
        "in_use_bytes": _integers([row.in_use_bytes for row in rows]),
        "peak_ratio": Numbers(np.array([row.ratio for row in rows], np.float64)),
        "blocks": _integers([row.blocks for row in rows]),
        "largest_bytes": _integers([row.largest_bytes for row in rows]),
        "age_ns": _integers([row.age_ns for row in rows]),
        "time_ns": Numbers(time),
        "reserved_bytes": Numbers(reserved, reserved >= 0),
        "place": labelled(of_peak, place_names(trace, pools)),
        "memory": labelled(of_peak, [pool.memory for pool in pools]),
        "allocator": labelled(of_peak, [ALLOCATORS[pool.allocator] for pool in pools]),
        "pid": Numbers(pids_of(trace, pools)[of_peak]),
        "allocated": labelled(before, (WHILE_RECORDING, EARLIER)),
        **{by: _texts([row.names[n] for row in rows]) for n, by in enumerate(chosen)},
    }
    fields = (*FIELDS, *(_NAMES[by] for by in chosen))
    name = ":".join((NAME, *arguments))
    title = f"Peak memory by {' and '.join(chosen)}" if arguments else TITLE
    return Result(name, title, fields, columns, (*KEY, *chosen), counting_notes(trace))


def _rows(trace: Trace, place: int, peak: Peak, labels: Sequence[Labels]) -> list[_Row]:
    """Return the rows of one peak, most bytes first."""
    events, blocks = allocations(trace), peak.blocks
    size, earlier = events.change_bytes[blocks], were_there(trace)[blocks]
    known = int(size.sum())
    whole = max(peak.allocated_bytes, known, 1)
    groups = factorize_rows(earlier.astype(np.int64), *(each.codes[blocks] for each in labels))
    rows = []
    for number, first in enumerate(groups.first.tolist()):
        members = groups.codes == number
        bytes_ = int(size[members].sum())
        codes = [int(each.codes[blocks[first]]) for each in labels]
        row = _Row(
            place,
            bytes_,
            bytes_ / whole,
            int(np.count_nonzero(members)),
            int(size[members].max()),
            None if earlier[first] else peak.time_ns - int(events.time_ns[blocks[members][0]]),
            tuple(
                each.texts[code] if code >= 0 else None
                for each, code in zip(labels, codes, strict=True)
            ),
            is_earlier=bool(earlier[first]),
        )
        rows.append(row)
    rest = peak.allocated_bytes - known
    if rest > 0:
        nothing = (None,) * len(labels)
        rows.append(_Row(place, rest, rest / whole, None, None, None, nothing, is_earlier=True))
    return sorted(rows, key=lambda row: -row.in_use_bytes)


def _integers(values: Sequence[int | None]) -> Numbers:
    """Return integers as a column; values that exceed 64 bits, as in a damaged file, are null."""
    known = [value if value is not None and abs(value) < _TOO_LARGE else None for value in values]
    valid = np.array([value is not None for value in known], np.bool_)
    return Numbers(np.array([value or 0 for value in known], np.int64), valid)


def _texts(values: Sequence[str | None]) -> Texts:
    distinct = sorted({value for value in values if value is not None})
    place = {text: number for number, text in enumerate(distinct)}
    codes = [-1 if value is None else place[value] for value in values]
    return Texts(np.array(codes, np.int32), distinct)
