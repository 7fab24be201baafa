"""kernel_roofline: FLOP, bytes and the ceiling that governs each profiled launch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from warpline.derived.counters import launch_columns
from warpline.derived.counters.known import Known, multiplied, ratio, scaled, total_of_known
from warpline.derived.efficiency.roofline_bounds import NEAR, bound_of, nearest_roof
from warpline.derived.efficiency.rooflines import Roof, Rooflines, rooflines
from warpline.derived.texts import dimension_texts, labelled
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit, format_ratio, plural

NAME = "kernel_roofline"
TITLE = "Roofline of profiled kernels"
HINT = "profile with warpline kernels --set roofline, or with ncu --set roofline or full"
BY_KERNEL, POINTS = "kernel", "points"
COUNTERS, DATA_SHEET = "counters", "data sheet"

_LAUNCH = (
    Field("launch", Unit.ID, "ID of the launch in its report or process.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
)
_KERNEL = (
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("launches", Unit.COUNT, "Profiled launches.", "Launches"),
)


def _flop(name: str, doc: str, header: str, *, is_optional: bool = False) -> Field:
    return Field(name, Unit.NONE, doc, f"{header} (GFLOP)", 1e-9, 3, is_optional=is_optional)


def _rate(name: str, doc: str, header: str) -> Field:
    return Field(name, Unit.NONE, doc, f"{header} (TFLOP/s)", 1e-12, 3)


_NUMBERS = (
    Field("duration_ns", Unit.NS, "Duration when profiled.", "Duration (ns)"),
    Field("bound", Unit.NONE, "What governs its time.", "Bound"),
    Field("roof", Unit.NONE, "Precision or memory nearest to its ceiling.", "Nearest Ceiling"),
    Field("share_ratio", Unit.RATIO, "Share of this ceiling.", "Of Ceiling (%)", 100.0, 1),
    Field("ceilings", Unit.NONE, "Source of this ceiling.", "Ceiling of", is_detail=True),
    _flop("flop", "FLOP of all precisions.", "All"),
    _rate("flop_per_s", "FLOP per second.", "Rate"),
    _flop("fp64_flop", "FLOP of CUDA cores in FP64.", "FP64", is_optional=True),
    _flop("fp32_flop", "FLOP of CUDA cores in FP32.", "FP32", is_optional=True),
    _flop("fp16_flop", "FLOP of CUDA cores in FP16.", "FP16", is_optional=True),
    _flop("tensor_flop", "FLOP of Tensor Cores.", "Tensor Core", is_optional=True),
    *(
        field
        for level in ("L1", "L2", "DRAM")
        for field in (
            Field(f"{level.lower()}_bytes", Unit.BYTES, f"Bytes at {level}.", f"{level} (B)"),
            Field(
                f"{level.lower()}_intensity",
                Unit.NONE,
                f"FLOP per byte at {level}.",
                f"FLOP/B at {level}",
                1.0,
                3,
            ),
        )
    ),
)
_POINT = (
    Field("precision", Unit.NONE, "Precision.", "Precision"),
    Field("level", Unit.NONE, "Level of memory.", "Memory"),
    _flop("flop", "FLOP in this precision.", "Work"),
    Field("bytes", Unit.BYTES, "Bytes at this level.", "Traffic (B)"),
    Field("intensity", Unit.NONE, "FLOP per byte.", "FLOP/B", 1.0, 3),
    _rate("flop_per_s", "FLOP per second.", "Rate"),
    _rate("peak_flop_per_s", "Peak of the precision.", "Peak"),
    Field("peak_bytes_per_s", Unit.BYTES_PER_S, "Peak of the memory.", "Peak (GB/s)", 1e-9, 1),
    Field("ridge", Unit.NONE, "FLOP per byte where both peaks meet.", "Ridge (FLOP/B)", 1.0, 2),
    _rate("roof_flop_per_s", "The lower of both peaks at this intensity.", "Ceiling"),
    Field("share_ratio", Unit.RATIO, "Share of this ceiling.", "Of Ceiling (%)", 100.0, 1),
    Field("governed_by", Unit.NONE, "Which of the peaks is lower there.", "Governed by"),
    Field("nominal_ratio", Unit.RATIO, "Of the data sheet's.", "Of Data Sheet (%)", 100.0, 1),
)
FIELDS = (*_LAUNCH, *_NUMBERS)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    arguments={
        BY_KERNEL: "One row per kernel name: sums over its launches, rates over their time.",
        POINTS: "One row per precision and level of memory: the points of ncu's roofline charts.",
    },
    missing_hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
)
def kernel_roofline(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """FLOP, bytes and the ceiling that governs each profiled launch.

    What it measures: FLOP by precision, bytes at L1, L2 and DRAM, FLOP per byte, and the share of
        the ceiling that is nearest: the peak of a precision, or the bandwidth of a level of memory.
        Rows are sorted by launch; with :kernel, by time.
    Why it matters: A memory-bound kernel at its ceiling needs fewer bytes, a compute-bound one
        fewer FLOP or a faster precision. One that is far from all ceilings waits for latency, and
        needs more warps or more independent instructions.
    How it is computed: As in the roofline sections of ncu: an FMA is 2 FLOP, an FP16 instruction
        of CUDA cores counts for two numbers, Tensor Cores count their own. Bytes at L1 are
        l1tex__lsu_writeback_active_mem_lgds x 128, at L2 lts__lts2xbar_cycles_active x 32, or
        l1tex__t_bytes and lts__t_bytes without these. Ceilings are .peak_sustained of the counters
        times the measured clock ("counters"), or those of the GPU's data sheet. bound names the
        nearest ceiling if 60% of it are reached, the threshold of ncu's rules, unless the
        throughput of memory or SMs is higher by more than 5 points: then these are busy with
        something else ("other units": shared memory, atomics; "other instructions": integers,
        transcendental functions, FP32 without FMA). "neither: latency" if nothing reaches 60%.
    Limits: What was not counted is empty, and so is bound if it depends on it. In sums over a
        kernel, launches without FLOP or bytes do as much per time as its others. Bytes at L1 and L2
        are those returned for loads, so kernels that write can have less there than at DRAM.
        Compilers set registers by FP16 instructions, which count as FLOP, as in ncu. The ceiling of
        Tensor Cores is that of the instructions used: on Hopper, HMMA reaches 2/3 of HGMMA. FLOP
        exclude INT8. The peak of CUDA cores supposes that all instructions are FMA.
    Source: Warpline.
    """
    found = rooflines(trace)
    if not any(roof.amount.is_known.any() for roof in found.roofs):
        return Skipped(NAME, "no FLOP or bytes were counted", HINT)
    names = trace.columns("profiled_kernel", "name_id")["name_id"]
    if BY_KERNEL in arguments:
        groups = factorize(names.filled(-1))
        first = np.full(len(groups.uniques), len(groups.codes), np.int64)
        np.minimum.at(first, groups.codes, np.arange(len(groups.codes)))
        found = found.summed(groups.codes, len(first))
        order = np.argsort(-found.duration_ns.values, kind="stable")
        launches = np.bincount(groups.codes, minlength=len(first))
        subject: tuple[Field, ...] = _KERNEL
        of_rows: dict[str, Values] = {
            "kernel": dimension_texts(trace.strings, names, first[order]),
            "launches": Numbers(launches[order]),
        }
    else:
        order = np.arange(trace.row_count("profiled_kernel"))
        subject, of_rows = _LAUNCH, launch_columns(trace, order)
    key = tuple(field.name for field in subject if field.name != "launches")
    name = ":".join((NAME, *arguments))
    if POINTS in arguments:
        places, points = _points(found, order)
        values = {field: _taken(of, places) for field, of in of_rows.items()} | points
        fields = (*subject, *_POINT)
        return Result(name, TITLE, fields, values, (*key, "precision", "level"), _notes(found))
    values = of_rows | _numbers(found, order)
    return Result(name, TITLE, (*subject, *_NUMBERS), values, key, _notes(found))


def _numbers(found: Rooflines, order: I64) -> dict[str, Values]:
    """Return the columns `_NUMBERS` of rows in an order."""
    nearest, share = nearest_roof(found)
    roofs = found.roofs
    by_name = {roof.name: roof.amount for roof in roofs}
    counted = {roof.name: roof.amount for roof in roofs if roof.is_flop}
    flop = total_of_known(*counted.values())
    tensor = total_of_known(*(of for name, of in counted.items() if name.endswith("Tensor Core")))
    sources = [
        None if place < 0 else COUNTERS if roofs[place].possible.is_known[row] else DATA_SHEET
        for row, place in enumerate(nearest.tolist())
    ]
    duration = found.duration_ns
    values: dict[str, Values] = {
        "duration_ns": _whole(duration, order),
        "bound": column_of(
            [bound_of(found, row, nearest[row], share[row]) for row in order.tolist()]
        ),
        "roof": column_of(
            [None if nearest[row] < 0 else roofs[nearest[row]].name for row in order.tolist()]
        ),
        "share_ratio": Numbers(share[order], (nearest >= 0)[order]),
        "ceilings": column_of([sources[row] for row in order.tolist()]),
        "flop": _column(flop, order),
        "flop_per_s": _column(scaled(ratio(flop, duration), 1e9), order),
        "fp64_flop": _column(by_name["FP64"], order),
        "fp32_flop": _column(by_name["FP32"], order),
        "fp16_flop": _column(by_name["FP16"], order),
        "tensor_flop": _column(tensor, order),
    }
    for level in ("L1", "L2", "DRAM"):
        of_level = by_name[level]
        values[f"{level.lower()}_bytes"] = _whole(of_level, order)
        values[f"{level.lower()}_intensity"] = _column(ratio(flop, of_level), order)
    return values


def _points(found: Rooflines, order: I64) -> tuple[I64, dict[str, Values]]:
    """Return the place in the order of each point, and the columns `_POINT`."""
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    has_time = found.duration_ns.is_known & (found.duration_ns.values > 0)
    is_used = [of.amount.is_known & (of.amount.values > 0) & has_time for of in found.roofs]
    places, precisions, levels = [], [], []
    for precision, level in product(range(len(found.roofs)), repeat=2):
        if found.roofs[precision].is_flop and found.roofs[level].is_memory:
            at = place_of[is_used[precision] & is_used[level]]
            places.append(at)
            precisions.append(np.full(len(at), precision))
            levels.append(np.full(len(at), level))
    place, precision_of, level_of = (np.concatenate(of) for of in (places, precisions, levels))
    ranks = np.lexsort((level_of, precision_of, place))
    place, precision_of, level_of = place[ranks], precision_of[ranks], level_of[ranks]
    row = order[place]

    def taken(of: Callable[[Roof], Known], roofs: I64) -> Known:
        known = [of(roof) for roof in found.roofs]
        values, is_known = (np.array(part) for part in zip(*known, strict=True))
        return Known(values[roofs, row], is_known[roofs, row])

    seconds = Known(found.duration_ns.values[row] / 1e9, has_time[row])
    flop, moved = (taken(lambda of: of.amount, roofs) for roofs in (precision_of, level_of))
    intensity, rate = ratio(flop, moved), ratio(flop, seconds)
    peak, bandwidth = (
        ratio(taken(lambda of: of.ceiling, roofs), seconds) for roofs in (precision_of, level_of)
    )
    by_memory = multiplied(intensity, bandwidth)
    is_known = peak.is_known & by_memory.is_known
    roof = Known(np.minimum(peak.values, by_memory.values), is_known)
    governing = np.where(by_memory.values < peak.values, level_of, precision_of)
    nominal = [
        ratio(amount, taken(lambda of: of.nominal, roofs))
        for amount, roofs in ((flop, precision_of), (moved, level_of))
    ]
    of_data_sheet = Known(
        np.maximum(nominal[0].values, nominal[1].values),
        nominal[0].is_known & nominal[1].is_known,
    )
    names = [of.name for of in found.roofs]
    every = np.arange(len(row))
    return place, {
        "precision": labelled(precision_of, names),
        "level": labelled(level_of, names),
        "flop": _column(flop, every),
        "bytes": _whole(moved, every),
        "intensity": _column(intensity, every),
        "flop_per_s": _column(rate, every),
        "peak_flop_per_s": _column(peak, every),
        "peak_bytes_per_s": _column(bandwidth, every),
        "ridge": _column(ratio(peak, bandwidth), every),
        "roof_flop_per_s": _column(roof, every),
        "share_ratio": _column(ratio(rate, roof), every),
        "governed_by": labelled(governing, names, is_known),
        "nominal_ratio": _column(of_data_sheet, every),
    }


def _notes(found: Rooflines) -> tuple[str, ...]:
    nearest, _ = nearest_roof(found)
    by_sheet = sum(
        1
        for row, place in enumerate(nearest.tolist())
        if place >= 0 and not found.roofs[place].possible.is_known[row]
    )
    limit = f"A kernel is bound by the nearest ceiling from {format_ratio(NEAR)} of it."
    if not by_sheet:
        return (f"Ceilings are the peaks of the counters at the measured clock. {limit}",)
    rows = plural(by_sheet, "row")
    return (f"Without peaks of counters, ceilings are those of the data sheet: {rows}. {limit}",)


def _column(of: Known, order: I64) -> Numbers:
    return Numbers(np.where(of.is_known, of.values, 0.0)[order], of.is_known[order])


def _whole(of: Known, order: I64) -> Numbers:
    values = np.rint(np.where(of.is_known, of.values, 0.0)).astype(np.int64)
    return Numbers(values[order], of.is_known[order])


def _taken(of: Values, places: I64) -> Values:
    """Return some rows of a column."""
    if isinstance(of, Numbers):
        return Numbers(of.values[places], None if of.valid is None else of.valid[places])
    return type(of)(of.codes[places], of.values)
