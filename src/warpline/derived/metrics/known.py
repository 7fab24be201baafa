"""What sampled metrics mean, whatever a recorder calls them: one list of meanings and names.

CUPTI has names such as ``sm__cycles_active.avg.pct_of_peak_sustained_elapsed``, and a chip may put
a group before it (``TPC.TriageCompute.``). Those of NVML begin with ``gpm__``. Nsight Systems has
labels with a unit, such as ``SMs Active [Throughput %]``, which differ between chips and versions.
Their values become shares of 1, bytes per second or Hz here, so that means over time need no
further unit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.metrics.series import MetricSeries, metric_series
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import F64
from warpline.trace import Trace
from warpline.units import Unit

# Ends the id of a meaning in bytes per second. Without it, it is a share of the peak.
RATE = "_rate"


class Meaning(NamedTuple):
    """What a metric measures.

    Attributes:
        id: Its name in code and in columns.
        label: Its name for people.
        unit: `Unit.RATIO` (of the peak, or of all cycles), `Unit.BYTES_PER_S` or `Unit.HZ`.
    """

    id: str
    label: str
    unit: Unit


class Known(NamedTuple):
    """A metric whose meaning is known.

    Attributes:
        meaning: The meaning.
        form: What is recorded: `PERCENT`, `BYTES` per sample, `BYTES_PER_S`, `GIGABYTES_PER_S` or
            `HERTZ`.
        rank: Place among the names of a meaning: if several are recorded, the first one counts.
        is_part: Whether it is one of several that together are the meaning.
    """

    meaning: Meaning
    form: str
    rank: int
    is_part: bool


PERCENT, BYTES, BYTES_PER_S, HERTZ = "percent", "bytes", "bytes per second", "hertz"
GIGABYTES_PER_S = "gigabytes per second"
_UNITS = {
    PERCENT: Unit.RATIO,
    BYTES: Unit.BYTES_PER_S,
    BYTES_PER_S: Unit.BYTES_PER_S,
    GIGABYTES_PER_S: Unit.BYTES_PER_S,
    HERTZ: Unit.HZ,
}


class _Names(NamedTuple):
    """The names of a meaning: CUPTI's have ``__``, the others are labels of Nsight Systems."""

    label: str
    names: tuple[str, ...]
    parts: tuple[str, ...] = ()


def _link(direction: str, counter: str) -> tuple[str, ...]:
    """Return the four parts of NVLink traffic in one direction."""
    kinds = (("Requests", "request"), ("Responses", "response"))
    data = (("Protocol", "protocol"), ("User", "user"))
    both = [(kind, part) for kind in kinds for part in data]
    return (
        *(f"NVLink {direction} {kind[0]} {part[0]} Data" for kind, part in both),
        *(f"{counter}__bytes_packet_{kind[1]}_data_{part[1]}" for kind, part in both),
    )


_MEANINGS: Mapping[str, _Names] = {
    "gr_active": _Names("Graphics/compute active", ("gr__cycles_active", "GR Active")),
    "sm_active": _Names(
        "SM active", ("sm__cycles_active", "gpm__sm_util", "SMs Active", "SM Active")
    ),
    "sm_issue": _Names(
        "SM issue",
        (
            *("sm__inst_executed_realtime", "sm__inst_executed", "sm__inst_issued"),
            *("SM Issue", "SM Issue Active"),
        ),
    ),
    "tensor_active": _Names(
        "Tensor active",
        (
            *("sm__pipe_tensor_cycles_active_realtime", "sm__pipe_tensor_cycles_active"),
            *("gpm__any_tensor_util", "Tensor Active"),
        ),
    ),
    "fp64_active": _Names(
        "FP64 pipe",
        (
            *("sm__pipe_fp64_cycles_active_realtime", "sm__pipe_fp64_cycles_active"),
            *("sm__inst_executed_pipe_fp64", "gpm__fp64_util", "FP64 Active"),
        ),
    ),
    "fp32_active": _Names(
        "FMA pipe",
        (
            *("sm__inst_executed_pipe_fma_realtime", "sm__inst_executed_pipe_fma"),
            *("sm__pipe_fma_cycles_active", "sm__pipe_fma_cycles_active_realtime"),
            *("sm__inst_executed_pipe_fmaheavy_realtime", "gpm__fp32_util"),
            *("SM FMA Pipe Throughput", "FP32 Active"),
        ),
    ),
    "fp16_active": _Names(
        "FP16 pipe",
        (
            *("sm__inst_executed_pipe_fp16", "sm__inst_executed_pipe_fma_type_fp16"),
            *("gpm__fp16_util", "FP16 Active"),
        ),
    ),
    "tensor_half_active": _Names(
        "Tensor active, FP16 and BF16",
        (
            "sm__pipe_tensor_op_hmma_cycles_active_realtime",
            "sm__pipe_tensor_subpipe_hmma_cycles_active_realtime",
        ),
    ),
    "tensor_integer_active": _Names(
        "Tensor active, integer",
        (
            "sm__pipe_tensor_op_imma_cycles_active_realtime",
            "sm__pipe_tensor_subpipe_imma_cycles_active_realtime",
        ),
    ),
    "alu_active": _Names(
        "ALU pipe",
        (
            *("sm__inst_executed_pipe_alu_realtime", "sm__inst_executed_pipe_alu"),
            "SM ALU Pipe Throughput",
        ),
    ),
    "xu_active": _Names(
        "XU pipe",
        (
            *("sm__inst_executed_pipe_xu_realtime", "sm__inst_executed_pipe_xu"),
            "SM SFU Pipe Throughput",
        ),
    ),
    "lsu_active": _Names("LSU pipe", ("sm__inst_executed_pipe_lsu",)),
    "warps_active": _Names(
        "Warps active",
        (
            *("sm__warps_active_realtime", "sm__warps_active", "gpm__sm_occupancy"),
            *("tpc__warps_active_shader_cs_realtime", "Compute Warps in Flight", "Compute Warps"),
        ),
    ),
    "dram_active": _Names(
        "DRAM active",
        (
            *("dram__throughput", "gpm__dram_bw_util"),
            *("DRAM Bandwidth", "VRAM Throughput"),
        ),
    ),
    "dram_read": _Names(
        "DRAM read",
        (
            *("dram__read_throughput", "dram__bytes_read"),
            *("DRAM Read Bandwidth", "DRAM Read Throughput", "GPU Memory Read Bandwidth"),
        ),
    ),
    "dram_write": _Names(
        "DRAM write",
        (
            *("dram__write_throughput", "dram__bytes_write"),
            *("DRAM Write Bandwidth", "DRAM Write Throughput", "GPU Memory Write Bandwidth"),
        ),
    ),
    "pcie_rx": _Names(
        "PCIe receive",
        (
            *("pcie__read_bytes", "gpm__pcie_rx_bytes"),
            *("PCIe RX Throughput", "PCIe Read Bandwidth"),
        ),
    ),
    "pcie_tx": _Names(
        "PCIe send",
        (
            *("pcie__write_bytes", "gpm__pcie_tx_bytes"),
            *("PCIe TX Throughput", "PCIe Write Bandwidth"),
        ),
    ),
    "nvlink_rx": _Names(
        "NVLink receive",
        ("nvlrx__bytes", "gpm__nvlink_total_rx_bytes", "NVLink RX Throughput"),
        _link("RX", "nvlrx"),
    ),
    "nvlink_tx": _Names(
        "NVLink send",
        ("nvltx__bytes", "gpm__nvlink_total_tx_bytes", "NVLink TX Throughput"),
        _link("TX", "nvltx"),
    ),
    "nvlink_rx_user": _Names("NVLink receive, user data", ("nvlrx__bytes_data_user",)),
    "nvlink_tx_user": _Names("NVLink send, user data", ("nvltx__bytes_data_user",)),
    "l2_active": _Names("L2 active", ("lts__t_sectors",)),
    "l2_hit": _Names(
        "L2 hit rate",
        (
            *("lts__t_sector_hit_rate", "lts__average_t_sector_hit_rate_realtime"),
            *("L2 Hit Rate", "L2 Cache Hit Rate"),
        ),
    ),
    "gpu_clock": _Names("GPU clock", ("gpc__cycles_elapsed", "GPC Clock Frequency")),
    "sys_clock": _Names("System clock", ("sys__cycles_elapsed", "SYS Clock Frequency")),
    "dram_clock": _Names("DRAM clock", ("dram__cycles_elapsed", "DRAM Clock Frequency")),
}
_CLOCKS = ("gpu_clock", "sys_clock", "dram_clock")
# Of SMs at one time: the lowest and the highest, where a recording has them.
LEAST, MOST = "_least", "_most"
_SPREAD = {"min": (LEAST, ", lowest SM"), "max": (MOST, ", highest SM")}
_OF_BYTES = frozenset(
    meaning for meaning in _MEANINGS if meaning.startswith(("dram_", "pcie_", "nvlink_"))
) - {"dram_active", "dram_clock"}

_PLACES = {
    name: (meaning, rank, rank >= len(names.names))
    for meaning, names in _MEANINGS.items()
    for rank, name in enumerate((*names.names, *names.parts))
}
_COUNTER = lazy_pattern(r"(?:\w+\.)*?(?P<counter>[a-z0-9]+__\w+)\.(?P<rest>[\w.]+)", re.ASCII)
_LABEL = lazy_pattern(r"(?P<label>[^\[\]]{1,100}?) \[(?P<unit>[^\[\]]{1,40})\]")
# A roll-up is over the units of a GPU: a share of the peak is the same for their sum and average.
_FORMS: Mapping[str, str] = {
    "avg.pct_of_peak_sustained_elapsed": PERCENT,
    "sum.pct_of_peak_sustained_elapsed": PERCENT,
    "min.pct_of_peak_sustained_elapsed": PERCENT,
    "max.pct_of_peak_sustained_elapsed": PERCENT,
    "pct": PERCENT,
    "sum": BYTES,
    "sum.per_second": BYTES_PER_S,
    "per_second": BYTES_PER_S,
    "avg.per_second": HERTZ,
}
_LABEL_FORMS: Mapping[str, str] = {
    "Throughput %": PERCENT,
    "Ratio %": PERCENT,
    "Bytes": BYTES,
    "B/s": BYTES_PER_S,
    "GB/s": GIGABYTES_PER_S,
    "MHz": HERTZ,
}
_LONGEST_NAME = 200
_LEAST_HZ = 1e5  # of a clock: what is lower is in MHz, as exports of Nsight Systems are read


def known_metric(name: str) -> Known | None:
    """Return what a metric means, by its recorded name; None if that is unknown."""
    found = _named(name) if len(name) <= _LONGEST_NAME else None
    if found is None:
        return None
    (meaning, rank, is_part), form, roll_up = found
    unit, label = _UNITS[form], _MEANINGS[meaning].label
    ending, which = _SPREAD.get(roll_up, ("", ""))
    is_right = (unit is Unit.HZ) == (meaning in _CLOCKS)  # not a counter of cycles
    is_right &= not which or meaning == "sm_active"
    if unit is Unit.BYTES_PER_S:
        ending, is_right = RATE, is_right and meaning in _OF_BYTES
    known = Known(Meaning(meaning + ending, label + which, unit), form, rank, is_part)
    return known if is_right else None


def _named(name: str) -> tuple[tuple[str, int, bool], str, str] | None:
    """Return the place of a name in the list, what it records, and CUPTI's roll-up over units."""
    counter, label = _COUNTER.fullmatch(name), _LABEL.fullmatch(name)
    if counter:
        rest = counter["rest"]
        place, form = _PLACES.get(counter["counter"]), _FORMS.get(rest)
    elif label:
        rest = ""
        place, form = _PLACES.get(label["label"].strip()), _LABEL_FORMS.get(label["unit"])
    else:
        return None
    return None if place is None or form is None else (place, form, rest.split(".", 1)[0])


class KnownSeries(NamedTuple):
    """The samples of a meaning on a GPU.

    Attributes:
        meaning: The meaning.
        recorded: The metric and what is recorded; several parts of equal times, which add up.
    """

    meaning: Meaning
    recorded: tuple[tuple[MetricSeries, str], ...]

    @property
    def samples(self) -> MetricSeries:
        """The samples, in the unit of the meaning. Shares may exceed 1 a little. Not kept."""
        parts = (in_unit(series, form) for series, form in self.recorded)
        first = next(parts)
        value = sum((part.value for part in parts), start=first.value)
        return _with_values(first, value)


@derived
def known_series(trace: Trace) -> Mapping[tuple[int, str], KnownSeries]:
    """Return the samples of each known meaning, by row of the device table and id of the meaning.

    Where metrics are parts of a meaning, such as NVLink's user and protocol data, values of equal
    times are added. Without DRAM activity, its reads and writes are added.
    """
    named: dict[tuple[int, str], list[tuple[Known, MetricSeries]]] = defaultdict(list)
    for series in metric_series(trace):
        known = known_metric(series.name)
        if known is not None:
            named[series.device, known.meaning.id].append((known, series))
    found = {}
    for key, entries in named.items():
        first = min(entries, key=lambda entry: entry[0].rank)[0]
        rank = None if first.is_part else first.rank
        chosen = [
            (series, known.form)
            for known, series in entries
            if (known.is_part and rank is None) or known.rank == rank
        ]
        # Several metrics of one name are not parts of anything: the first one counts.
        parts = chosen if rank is None else chosen[:1]
        if _have_equal_times(parts):
            found[key] = KnownSeries(first.meaning, tuple(parts))
    for device in {device for device, _ in found}:
        key = (device, "dram_active")
        both = [found.get((device, each)) for each in ("dram_read", "dram_write")]
        parts = [part for known in both if known is not None for part in known.recorded]
        if key not in found and None not in both and _have_equal_times(parts):
            meaning = Meaning("dram_active", _MEANINGS["dram_active"].label, Unit.RATIO)
            found[key] = KnownSeries(meaning, tuple(parts))
    return found


def in_unit(series: MetricSeries, form: str) -> MetricSeries:
    """Return samples in the unit of their meaning; the rate of those without a duration is 0.

    Args:
        series: As recorded.
        form: What is recorded.
    """
    value: F64 = series.value
    if form == PERCENT:
        value = value / 100
    elif form == HERTZ and len(value) and np.median(value) < _LEAST_HZ:
        value = value * 1e6
    elif form == GIGABYTES_PER_S:
        value = value * 1e9
    elif form == BYTES:
        seconds = (series.end_ns - series.start_ns) / 1e9
        value = np.divide(value, seconds, out=np.zeros_like(value), where=seconds > 0)
    return _with_values(series, value)


def _have_equal_times(parts: Sequence[tuple[MetricSeries, str]]) -> bool:
    first = parts[0][0]
    return all(np.array_equal(series.start_ns, first.start_ns) for series, _ in parts[1:])


def _with_values(series: MetricSeries, value: F64) -> MetricSeries:
    return MetricSeries(
        series.device, series.metric, series.name, series.start_ns, series.end_ns, value
    )
