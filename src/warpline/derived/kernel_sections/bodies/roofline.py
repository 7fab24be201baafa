"""roofline: FLOP and bytes of a launch, and the ceilings above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived.counters.known import Known, first_known, multiplied, ratio
from warpline.derived.efficiency.roofline_bounds import bound_of, nearest_roof
from warpline.derived.efficiency.rooflines import SM_CLOCK, Roof, Rooflines, rooflines
from warpline.derived.kernel_sections.columns import Item, Shared, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body
from warpline.hardware.measured import MeasuredCeilings
from warpline.ops.arrays import BoolArray

# By the name of the roof; and the type of the GEMM that measures it.
_PRECISIONS = {
    "FP64": ("fp64", ""),
    "FP32": ("fp32", "fp32"),
    "FP16": ("fp16", ""),
    "FP64 Tensor Core": ("tensor_fp64", "fp64"),
    "TF32 Tensor Core": ("tensor_tf32", "tf32"),
    "BF16 Tensor Core": ("tensor_bf16", "bf16"),
    "FP16 Tensor Core": ("tensor_fp16", "fp16"),
    "FP8 Tensor Core": ("tensor_fp8", "fp8"),
    "INT8 Tensor Core": ("tensor_int8", ""),  # its operations count as FLOP here
}
_WITHIN_GPU = "d2d"
_READS_AND_WRITES = 2  # a copy within the GPU moves its bytes twice
_SM_CYCLES = "sm__cycles_elapsed.{}"
# Where ceilings come from: the counters' own peaks at the clock of the run, the data sheet, and
# `warpline bench` on this GPU, as measured or at the clock of the run.
_CLOCK, _NOMINAL, _MEASURED, _MEASURED_CLOCK = "clock", "nominal", "measured", "measured_clock"


@section_body("roofline")
def roofline(metrics: Metrics) -> Item:
    """Return a point for each precision and level of memory, the ceilings, and the bound."""
    found = rooflines(metrics.trace)
    duration = found.duration_ns
    seconds = Known(duration.values / 1e9, duration.is_known & (duration.values > 0))
    flops = [roof for roof in found.roofs if roof.name in _PRECISIONS]
    levels = [roof for roof in found.roofs if roof.is_memory]
    measured = _measured_rates(metrics, [*flops, *levels], _sm_clock(metrics, seconds))
    points = [_point(of, level, seconds, measured) for of in flops for level in levels]
    counted = any_of([Item(of.amount.is_known, ()) for of in flops], len(metrics))
    moved = any_of([Item(level.amount.is_known, ()) for level in levels], len(metrics))
    tree: dict[str, Tree] = {
        "points": points,
        "ceilings": _ceilings(metrics, flops, levels, seconds, measured),
        "bound": _bounds(found, len(metrics)),
    }
    return Item(counted & moved & seconds.is_known, tree)


def _point(of: Roof, level: Roof, seconds: Known, measured: _MeasuredRates) -> Item:
    has = of.amount.is_known & (of.amount.values > 0) & seconds.is_known
    has &= level.amount.is_known & (level.amount.values > 0)
    intensity, rate = ratio(of.amount, level.amount), ratio(of.amount, seconds)
    peak = ratio(of.ceiling, seconds)
    by_memory = multiplied(intensity, ratio(level.ceiling, seconds))
    ceiling = _lower(peak, by_memory)
    reached = _lower(
        first_known(*measured[of.name].values()),
        multiplied(intensity, first_known(*measured[level.name].values())),
    )
    governing = np.where(ceiling.is_known, 1 + (by_memory.values < peak.values), 0)
    tree: dict[str, Tree] = {
        "precision": _PRECISIONS[of.name][0],
        "name": of.name,
        "level": level.name,
        "flop": of.amount,
        "bytes": Known(np.rint(level.amount.values), level.amount.is_known),
        "flop_per_byte": intensity,
        "flop_per_s": rate,
        "bytes_per_s": ratio(level.amount, seconds),
        "ceiling_flop_per_s": ceiling,
        "ratio": ratio(rate, ceiling),
        "measured_ratio": ratio(rate, reached),
        "governed_by": Shared.among(governing, (None, of.name, level.name)),
    }
    return Item(has, tree)


def _lower(one: Known, other: Known) -> Known:
    """Return the lower of two ceilings, known where both are."""
    is_known = one.is_known & other.is_known
    return Known(np.minimum(one.values, other.values), is_known)


def _ceilings(
    metrics: Metrics,
    flops: list[Roof],
    levels: list[Roof],
    seconds: Known,
    measured: _MeasuredRates,
) -> list[Item]:
    """Return the ceilings of memory, and of precisions that a launch used, and FP32."""
    items = []
    for roof in (*flops, *levels):
        is_used = roof.amount.is_known & (roof.amount.values > 0)
        is_shown = metrics.every() if roof.is_memory or roof.name == "FP32" else is_used
        identity: dict[str, Tree] = {"kind": "bandwidth", "name": roof.name, "level": roof.name}
        if not roof.is_memory:
            precision = _PRECISIONS[roof.name][0]
            identity = {"kind": "compute", "name": roof.name, "precision": precision}
        rate_name = "bytes_per_s" if roof.is_memory else "flop_per_s"
        rates = {
            _CLOCK: ratio(roof.possible, seconds),
            _NOMINAL: ratio(roof.nominal, seconds),
            **measured[roof.name],
        }
        for source, rate in rates.items():
            tree: dict[str, Tree] = {**identity, rate_name: rate, "source": source}
            items.append(Item(rate.is_known & (rate.values > 0) & is_shown, tree))
    return items


def _sm_clock(metrics: Metrics, seconds: Known) -> Known:
    """Return the clock of the SMs in each launch, in Hz."""
    cycles = (metrics.get(_SM_CYCLES.format(rollup)) for rollup in ("avg", "max"))
    return first_known(metrics.get(SM_CLOCK), *(ratio(of, seconds) for of in cycles))


# By the name of the roof: rates by their source, of which a launch has one at most.
_MeasuredRates = Mapping[str, Mapping[str, Known]]


def _measured_rates(metrics: Metrics, roofs: Sequence[Roof], clock: Known) -> _MeasuredRates:
    """Return what the GPU of each launch reached in `warpline bench`, per second.

    GEMMs are scaled to the clock of the launch where both clocks are known: `warpline bench` may
    have run at a lower one, limited by power. Bytes of DRAM do not depend on it.
    """
    of_launches = _measured_of_launches(metrics)
    found = {}
    for roof in roofs:
        per_cycle, per_second = np.zeros(len(metrics)), np.zeros(len(metrics))
        for ceilings, is_on in of_launches:
            if roof.name == "DRAM":
                copied = ceilings.copy_bytes_per_s.get(_WITHIN_GPU, 0)
                per_second[is_on] = _READS_AND_WRITES * copied
            elif not roof.is_memory:
                dtype = _PRECISIONS[roof.name][1]
                per_second[is_on] = ceilings.flop_per_s.get(dtype, 0)
                per_cycle[is_on] = ceilings.flop_per_cycle.get(dtype, 0)
        scaled = multiplied(Known(per_cycle, per_cycle > 0), clock)
        as_measured = Known(per_second, (per_second > 0) & ~scaled.is_known)
        found[roof.name] = {_MEASURED: as_measured, _MEASURED_CLOCK: scaled}
    return found


def _measured_of_launches(metrics: Metrics) -> Sequence[tuple[MeasuredCeilings, BoolArray]]:
    """Return the measured GPUs, and which launches ran on each: by its UUID, or else its model."""
    trace = metrics.trace
    devices = trace.columns("profiled_kernel", "device_id")["device_id"]
    found: dict[int, BoolArray] = {}
    if trace.has("device"):
        columns = trace.columns("device", "uuid_id", "name_id")
        names = [
            [None if row is None else trace.strings.text(row) for row in column.to_list()]
            for column in columns.values()
        ]
        for device, (uuid, name) in enumerate(zip(*names, strict=True)):
            place = _best(metrics, uuid, name)
            if place is not None:
                is_on = devices.is_valid() & (devices.values == device)
                found[place] = found.get(place, ~metrics.every()) | is_on
    return [(metrics.measured[place], is_on) for place, is_on in found.items()]


def _best(metrics: Metrics, uuid: str | None, name: str | None) -> int | None:
    same = [place for place, of in enumerate(metrics.measured) if uuid and of.gpu_uuid == uuid]
    alike = [place for place, of in enumerate(metrics.measured) if name and of.gpu_name == name]
    return next(iter((*same, *alike)), None)


def _bounds(found: Rooflines, count: int) -> Shared:
    """Return what governs the time of each launch, as `kernel_roofline` says it."""
    nearest, share = nearest_roof(found)
    bounds = [bound_of(found, row, int(nearest[row]), float(share[row])) for row in range(count)]
    distinct = [*dict.fromkeys(bounds)]
    places = {bound: place for place, bound in enumerate(distinct)}
    return Shared.among(np.array([places[bound] for bound in bounds], np.int64), distinct)
