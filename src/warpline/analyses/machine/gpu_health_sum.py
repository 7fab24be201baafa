"""gpu_health_sum: clock, power, temperature, memory and links of each GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.health.clock_limits import limits_in_words
from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.texts import dimension_texts
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "gpu_health_sum"
TITLE = "State of each GPU"
HINT = "profile with warpline profile, without --gpu-health=off"


def _mhz(name: str, doc: str, heading: str) -> Field:
    return Field(f"{name}_hz", Unit.HZ, doc, f"{heading} (MHz)", 1e-6, 0)


def _watts(name: str, doc: str, heading: str) -> Field:
    return Field(f"{name}_w", Unit.WATTS, doc, f"{heading} (W)", digits=0)


def _mb(name: str, doc: str, heading: str) -> Field:
    return Field(f"{name}_bytes", Unit.BYTES, doc, f"{heading} (MB)", 1e-6, 0)


def _rate(name: str, doc: str, heading: str) -> Field:
    return Field(
        f"{name}_bytes_per_s", Unit.BYTES_PER_S, doc, f"{heading} (MB/s)", 1e-6, 1, is_optional=True
    )


def _share(name: str, doc: str, heading: str) -> Field:
    return Field(f"{name}_ratio", Unit.RATIO, doc, f"{heading} (%)", 100.0, 1)


FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU, as recorded.", "GPU"),
    Field("name", Unit.NONE, "Product name.", "Name"),
    Field("readings", Unit.COUNT, "Number of readings.", "Readings"),
    Field("period_ns", Unit.NS, "Median time between two readings.", "Period (ns)", digits=0),
    _mhz("min_sm_clock", "Lowest SM clock.", "SM Min"),
    _mhz("median_sm_clock", "Median SM clock.", "SM Med"),
    _mhz("max_sm_clock", "Highest SM clock that was read.", "SM Max"),
    _mhz("highest_sm_clock", "Highest SM clock of the GPU.", "SM Highest"),
    _share("sm_clock", "Median SM clock as a share of the highest, at most 1.", "SM Clock"),
    _mhz("median_memory_clock", "Median memory clock.", "Memory Med"),
    Field(
        "limits",
        Unit.NONE,
        "What limited the clocks, in the words of nvidia-smi, with shares of the readings.",
        "Clock Limits",
    ),
    _share("power_limited", "Share of the time with clocks limited by power.", "Power-Limited"),
    _share("thermal_limited", "Share of the time with clocks limited by heat.", "Heat-Limited"),
    _watts("min_power", "Lowest power.", "Power Min"),
    _watts("median_power", "Median power.", "Power Med"),
    _watts("max_power", "Highest power.", "Power Max"),
    _watts("limit", "Power limit.", "Power Limit"),
    Field("energy_j", Unit.JOULES, "Energy from first to last reading.", "Energy (J)", digits=0),
    Field("median_c", Unit.CELSIUS, "Median temperature.", "Temp Med (C)", digits=0),
    Field("max_c", Unit.CELSIUS, "Highest temperature.", "Temp Max (C)", digits=0),
    Field(
        "max_memory_c", Unit.CELSIUS, "Highest temperature of the memory.", "Mem Temp Max (C)",
        digits=0,
    ),
    _mb("max_used", "Most memory in use, of all processes.", "Memory Used"),
    _share("max_used", "That as a share of the GPU's memory, at most 1.", "Memory Used"),
    _mb("max_other", "Most memory in use by other processes.", "Memory of Others"),
    Field("others", Unit.COUNT, "Most other processes on the GPU at once.", "Other Processes"),
    Field("pcie", Unit.NONE, "PCIe generations and widths that were read.", "PCIe"),
    Field("best_pcie", Unit.NONE, "Highest PCIe generation and width.", "Best PCIe"),
    Field("nvlinks", Unit.COUNT, "Fewest active NVLinks.", "NVLinks"),
    _rate("nvlink_sent", "Bytes sent over NVLink per second.", "NVLink Sent"),
    _rate("nvlink_received", "Bytes received over NVLink per second.", "NVLink Received"),
    Field("ecc_corrected", Unit.COUNT, "Corrected memory errors meanwhile.", "ECC Corrected"),
    Field("ecc_uncorrected", Unit.COUNT, "Uncorrected ones.", "ECC Uncorrected"),
    Field("xid", Unit.NONE, "Xid errors: number and how often.", "Xid"),
)  # fmt: skip


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=("gpu_health",), missing_hint=HINT)
def gpu_health_sum(trace: Trace, arguments: Arguments) -> Result:
    """Clock, power, temperature, memory and links of each GPU, and what limited its clock.

    What it measures: For each GPU, the readings of its driver (NVML) while the program was
        recorded: SM and memory clock, what limited the clock, power, energy, temperature, memory
        in use, other processes, PCIe and NVLink, and errors.
    Why it matters: A GPU that is hot, shares its power or its memory with others, or whose clock is
        set low, makes every kernel slower. No change of the program helps.
    How it is computed: Minimum, median and maximum of the readings. Limits have the names that
        nvidia-smi gives them, and the share of the readings in which they were set: several may be
        set at once. Shares of the time, energy, NVLink and ECC are differences of counters. Median
        and limits include times in which the GPU is idle, and its clock may be low.
    Limits: A reading shows one moment: at one per second, shorter changes go unnoticed. NVML's
        power is an average over about a second on most GPUs. What a driver or a container does not
        give is empty.
    Source: NVML API reference; nvidia-smi.
    """
    every = gpu_readings(trace)
    rows = np.array([each.of for each in every], np.int64)
    device = trace.columns(
        "device", "gpu_index", "name_id", "clock_hz", "memory_bytes", "power_limit_w",
        "pcie_generation", "pcie_width",
    )  # fmt: skip

    def recorded(column: str, place: int) -> Any:
        data = device[column]
        return data.values[place].item() if data.is_valid()[place] else None

    errors = _xids(trace)
    made = [
        {
            **_clocks(each, recorded("clock_hz", each.of)),
            **_power(each, recorded("power_limit_w", each.of)),
            **_memory(each, recorded("memory_bytes", each.of)),
            **_links(each, recorded("pcie_generation", each.of), recorded("pcie_width", each.of)),
            "xid": errors.get(each.of),
        }
        for each in every
    ]
    values: dict[str, Values] = {
        "gpu_index": Numbers(device["gpu_index"].values[rows]),
        "name": dimension_texts(trace.strings, device["name_id"], rows),
    }
    for field in FIELDS[len(values) :]:
        values[field.name] = column_of([row[field.name] for row in made])
    return Result(NAME, TITLE, FIELDS, values, ("gpu_index", "name"))


def _clocks(each: Readings, highest_hz: int | None) -> dict[str, Any]:
    sm = each.known("sm_clock_hz").values
    median = float(np.median(sm)) if len(sm) else None
    has_share = median is not None and highest_hz is not None and highest_hz > 0
    return {
        "readings": len(each),
        "period_ns": each.period_ns if len(each) > 1 else None,
        "min_sm_clock_hz": _of(np.min, sm),
        "median_sm_clock_hz": median,
        "max_sm_clock_hz": _of(np.max, sm),
        "highest_sm_clock_hz": highest_hz,
        "sm_clock_ratio": _ratio(median, highest_hz) if has_share else None,
        "median_memory_clock_hz": _of(np.median, each.known("memory_clock_hz").values),
        "limits": limits_in_words(each),
        "power_limited_ratio": _share_of_time(each, "power_limited_ns"),
        "thermal_limited_ratio": _share_of_time(each, "thermal_limited_ns"),
    }


def _power(each: Readings, limit_w: float | None) -> dict[str, Any]:
    power, heat = each.known("power_w").values, each.known("temperature_c").values
    return {
        "min_power_w": _of(np.min, power),
        "median_power_w": _of(np.median, power),
        "max_power_w": _of(np.max, power),
        "limit_w": limit_w,
        "energy_j": each.increase("energy_j"),
        "median_c": _of(np.median, heat),
        "max_c": _of(np.max, heat),
        "max_memory_c": _of(np.max, each.known("memory_temperature_c").values),
    }


def _memory(each: Readings, memory_bytes: int | None) -> dict[str, Any]:
    used = _whole(_of(np.max, each.known("used_memory_bytes").values))
    return {
        "max_used_bytes": used,
        "max_used_ratio": _ratio(used, memory_bytes),
        "max_other_bytes": _whole(_of(np.max, each.known("other_memory_bytes").values)),
        "others": _whole(_of(np.max, each.known("other_processes").values)),
    }


def _links(each: Readings, generation: int | None, width: int | None) -> dict[str, Any]:
    known = each.is_known("pcie_generation") & each.is_known("pcie_width")
    now = [each.columns[name].values[known] for name in ("pcie_generation", "pcie_width")]
    seen = sorted(set(zip(*(column.tolist() for column in now), strict=True)))
    is_complete = generation is not None and width is not None
    return {
        "pcie": ", ".join(_pcie(*pair) for pair in seen) or None,
        "best_pcie": _pcie(generation, width) if is_complete else None,
        "nvlinks": _whole(_of(np.min, each.known("nvlinks").values)),
        "nvlink_sent_bytes_per_s": each.rate("nvlink_sent_bytes"),
        "nvlink_received_bytes_per_s": each.rate("nvlink_received_bytes"),
        "ecc_corrected": _whole(each.increase("ecc_corrected")),
        "ecc_uncorrected": _whole(each.increase("ecc_uncorrected")),
    }


def _pcie(generation: int | None, width: int | None) -> str:
    return f"{generation} x{width}"


def _xids(trace: Trace) -> dict[int, str]:
    """Return the Xid errors of each GPU in words, by row of the device table."""
    if not trace.has("gpu_error"):
        return {}
    columns = trace.columns("gpu_error", "device_id", "xid")
    device, xid = (columns[name].values for name in ("device_id", "xid"))
    texts = {}
    for row in np.unique(device).tolist():
        numbers, counts = np.unique(xid[device == row], return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        texts[row] = ", ".join(
            f"{n} ({count} times)" if count > 1 else f"{n}" for n, count in pairs
        )
    return texts


def _share_of_time(each: Readings, counter: str) -> float | None:
    """Return the growth of a counter of ns as a share of the time, None if unknown."""
    rate = each.rate(counter)
    return None if rate is None else min(rate / 1e9, 1.0)


def _of(statistic: Any, values: Any) -> float | None:
    return float(statistic(values)) if len(values) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ratio(value: float | None, whole: float | None) -> float | None:
    if value is None or whole is None or whole <= 0:
        return None
    return min(max(value / whole, 0.0), 1.0)
