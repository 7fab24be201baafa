"""memory_peak: what was in memory when most was in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.memory.allocations import ALLOCATORS, Peak, allocations, memory_peaks
from warpline.derived.memory.operators import calls_of_allocations
from warpline.derived.memory.places import (
    counting_notes,
    operators_of_allocations,
    pids_of,
    place_names,
)
from warpline.derived.operators.labels import modules_of_calls
from warpline.derived.texts import labelled
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

_TOO_LARGE = 1 << 63
NAME = "memory_peak"
TITLE = "Memory in use at its peak"
HINT = "record with profile_memory=True in torch.profiler, or with --cuda-memory-usage=true"
WHILE_RECORDING, EARLIER = "While recording", "Before"
FIELDS = (
    Field("in_use_bytes", Unit.BYTES, "Bytes in use at the peak.", "In Use (MB)", 1e-6, 3),
    Field("peak_ratio", Unit.RATIO, "Share of what was in use there.", "Peak (%)", 100.0, 1),
    Field("blocks", Unit.COUNT, "How many blocks that is.", "Blocks"),
    Field("largest_bytes", Unit.BYTES, "The largest of them.", "Largest (MB)", 1e-6, 3),
    Field("age_ns", Unit.NS, "From the first of them to the peak.", "Age (ns)"),
    Field("time_ns", Unit.NS, "When the peak was.", "Peak At (ns)"),
    Field("reserved_bytes", Unit.BYTES, "Got from the driver by then.", "Reserved (MB)", 1e-6, 3),
    Field("place", Unit.NONE, "The GPU, or Host.", "Place"),
    Field("memory", Unit.NONE, "Kind of the memory.", "Memory", is_detail=True),
    Field(
        "allocator", Unit.NONE, "Who allocated: Framework or Driver.", "Allocator", is_detail=True
    ),
    Field("pid", Unit.ID, "Process.", "PID", is_detail=True),
    Field("allocated", Unit.NONE, "While recording, or before.", "Allocated"),
    Field("module", Unit.NONE, "Modules around it, outermost first.", "Module"),
    Field("operator", Unit.NONE, "Outermost operator that allocated it.", "Operator"),
)
KEY = ("place", "memory", "allocator", "pid", "allocated", "module", "operator")


class _Row(NamedTuple):
    """Blocks of one pool that one operator in one module allocated; or those of before."""

    peak: int
    in_use_bytes: int
    ratio: float
    blocks: int | None
    largest_bytes: int | None
    age_ns: int | None
    module: str | None
    operator: str | None


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
)
def memory_peak(trace: Trace, arguments: Arguments) -> Result:
    """Who had allocated the memory that was in use when most of it was.

    What it measures: For each GPU and process, and for the host: the first moment at which most
        memory was in use, and the blocks that were in use then, by the operator and the module of
        the model that allocated them.
    Why it matters: Only what is in use at the peak decides whether a larger batch or model fits.
        It tells activations from gradients and from the state of the optimizer, and shows blocks
        that live longer than they need to.
    How it is computed: The peak is the largest number of bytes in use of memory_timeline. A block
        is in use from its allocation to what next happens at its address. Its operator is the
        outermost one that was running on the thread then, so that aten::linear answers for the
        aten::empty inside it; the module is that of op_sum:module. What was in use at the peak
        and was not allocated while recording is one row, Before. Largest peak first, within it
        most bytes first.
    Limits: Blocks that were allocated outside of all operators have none. Of the driver's memory
        only the blocks are known. Blocks, not tensors, are counted: the allocator rounds up. What
        one allocator got from the other is in both.
    Source: Warpline.
    """
    peaks = memory_peaks(trace)
    labels = _labels(trace)
    order = sorted(range(len(peaks)), key=lambda place: -peaks[place].allocated_bytes)
    rows = [row for place in order for row in _rows(trace, place, peaks[place], labels)]
    of_peak = np.array([row.peak for row in rows], np.int64)
    pools = [peak.pool for peak in peaks]
    reserved = np.array([peak.reserved_bytes for peak in peaks], np.int64)[of_peak]
    time = np.array([peak.time_ns for peak in peaks], np.int64)[of_peak]
    before = np.array([row.blocks is None for row in rows], np.int64)
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
        "module": _texts([row.module for row in rows]),
        "operator": _texts([row.operator for row in rows]),
    }
    return Result(NAME, TITLE, FIELDS, columns, KEY, counting_notes(trace))


class _Labels(NamedTuple):
    """Operator and module of each event of `allocations`, as places in texts; -1 for none."""

    operator: I64
    operators: tuple[str, ...]
    module: I64
    modules: tuple[str, ...]


def _labels(trace: Trace) -> _Labels:
    operators = operators_of_allocations(trace)
    operator = np.where(operators.found, operators.name, -1)
    module = np.full(len(operator), -1)
    texts: tuple[str, ...] = ("",)
    if trace.has("op") and trace.row_count("op"):
        inside, of_calls = calls_of_allocations(trace), modules_of_calls(trace)
        module[inside.found] = of_calls.codes[inside.row[inside.found]]
        texts = of_calls.texts
    return _Labels(operator, operators.names, module, texts)


def _rows(trace: Trace, place: int, peak: Peak, labels: _Labels) -> list[_Row]:
    """Return the rows of one peak, most bytes first."""
    events, blocks = allocations(trace), peak.blocks
    size = events.change_bytes[blocks]
    known = int(size.sum())
    whole = max(peak.allocated_bytes, known, 1)
    groups = factorize_rows(labels.operator[blocks], labels.module[blocks])
    found = []
    for number, first in enumerate(groups.first.tolist()):
        members = groups.codes == number
        bytes_ = int(size[members].sum())
        operator, module = labels.operator[blocks[first]], labels.module[blocks[first]]
        row = _Row(
            place,
            bytes_,
            bytes_ / whole,
            int(np.count_nonzero(members)),
            int(size[members].max()),
            peak.time_ns - int(events.time_ns[blocks[members][0]]),
            labels.modules[module] if module >= 0 else None,
            labels.operators[operator] if operator >= 0 else None,
        )
        found.append(row)
    rest = peak.allocated_bytes - known
    if rest > 0:
        found.append(_Row(place, rest, rest / whole, None, None, None, None, None))
    return sorted(found, key=lambda row: -row.in_use_bytes)


def _integers(values: Sequence[int | None]) -> Numbers:
    """Return integers as a column; what is none of 64 bits, as in a damaged file, is left out."""
    known = [value if value is not None and abs(value) < _TOO_LARGE else None for value in values]
    valid = np.array([value is not None for value in known], np.bool_)
    return Numbers(np.array([value or 0 for value in known], np.int64), valid)


def _texts(values: Sequence[str | None]) -> Texts:
    distinct = sorted({value for value in values if value is not None})
    place = {text: number for number, text in enumerate(distinct)}
    codes = [-1 if value is None else place[value] for value in values]
    return Texts(np.array(codes, np.int32), distinct)
