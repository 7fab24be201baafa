"""What NvPerf knows about the metrics of a chip: properties, parts, and the counters they need."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_void_p
from functools import cached_property
from typing import Any, Self

from warpline.counters import nvperf
from warpline.counters.nvperf import NvPerf, NvPerfError, Request

COUNTER, RATIO, THROUGHPUT = range(3)  # NVPW_MetricType
_REQUEST_SIZE = nvperf.size_of(Request)


class Evaluator:
    """A metrics evaluator of a chip, freed at the end of the ``with`` block.

    All methods raise NvPerfError if a function fails, as for unknown metrics.

    Args:
        library: NvPerf.
        chip: Name of the chip.
    """

    def __init__(self, library: NvPerf, chip: str) -> None:
        self._call = library.call
        size = nvperf.ScratchSize(pChipName=chip.encode())
        self._call(size)
        self._scratch = ctypes.create_string_buffer(size.scratchBufferSize)
        made = nvperf.InitializeEvaluator(
            pScratchBuffer=ctypes.cast(self._scratch, c_void_p),
            scratchBufferSize=len(self._scratch),
            pChipName=chip.encode(),
        )
        self._call(made)
        self._handle = made.pMetricsEvaluator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._call(nvperf.DestroyEvaluator(pMetricsEvaluator=self._handle))

    @cached_property
    def names(self) -> tuple[list[str], ...]:
        """The base metrics of each kind."""
        return tuple(self._names(kind) for kind in (COUNTER, RATIO, THROUGHPUT))

    def breakdown(self, throughput: str) -> list[str] | None:
        """Return what a throughput is the maximum of, at all levels; None if it is none.

        Args:
            throughput: Base name.

        Returns:
            Base names of counters and throughputs, without `throughput`.
        """
        found = nvperf.TypeAndIndex(pMetricsEvaluator=self._handle, pMetricName=throughput.encode())
        self._call(found)
        if found.metricType != THROUGHPUT:
            return None
        parts: dict[str, None] = {}
        self._collect_parts(found.metricIndex, parts)
        return list(parts)

    def counters_of(self, name: str) -> list[bytes]:
        """Return the counters that a metric needs."""
        request = self._request(name)
        call = nvperf.RawDependencies(
            pMetricsEvaluator=self._handle,
            pMetricEvalRequests=ctypes.pointer(request),
            numMetricEvalRequests=1,
            metricEvalRequestStructSize=_REQUEST_SIZE,
            metricEvalRequestStrideSize=ctypes.sizeof(Request),
        )
        self._call(call)
        needed = (c_char_p * call.numRawDependencies)()
        optional = (c_char_p * call.numOptionalRawDependencies)()
        call.ppRawDependencies, call.ppOptionalRawDependencies = needed, optional
        self._call(call)
        return [*filter(None, needed)]

    def description(self, kind: int, index: int) -> tuple[str, str]:
        """Return the unit of the GPU that a base metric is about, and NVIDIA's description.

        Args:
            kind: `COUNTER`, `RATIO` or `THROUGHPUT`.
            index: Its place in `names`.
        """
        call: Any
        if kind == COUNTER:
            call = nvperf.CounterProperties(counterIndex=index)
        elif kind == RATIO:
            call = nvperf.RatioProperties(ratioMetricIndex=index)
        else:
            call = nvperf.ThroughputProperties(throughputMetricIndex=index)
        call.pMetricsEvaluator = self._handle
        self._call(call)
        unit = nvperf.HwUnitName(pMetricsEvaluator=self._handle, hwUnit=call.hwUnit)
        self._call(unit)
        return text(unit.pHwUnitName), text(call.pDescription)

    def unit(self, name: str) -> str:
        """Return the unit of a metric, a full name: ``byte``, ``inst/warp``."""
        request = self._request(name)
        call = nvperf.DimUnits(
            pMetricsEvaluator=self._handle,
            pMetricEvalRequest=ctypes.pointer(request),
            metricEvalRequestStructSize=_REQUEST_SIZE,
            dimUnitFactorStructSize=nvperf.size_of(nvperf.DimUnit),
        )
        self._call(call)
        units = (nvperf.DimUnit * call.numDimUnits)()
        call.pDimUnits = units
        self._call(call)
        above = [self._unit_name(unit) for unit in units if unit.exponent > 0]
        below = [self._unit_name(unit) for unit in units if unit.exponent < 0]
        found = "/".join(["".join(above), *below])
        return "" if found == "unitless" else found

    def _unit_name(self, unit: nvperf.DimUnit) -> str:
        call = nvperf.DimUnitName(pMetricsEvaluator=self._handle, dimUnit=unit.dimUnit)
        self._call(call)
        return text(call.pSingularName)

    def _names(self, kind: int) -> list[str]:
        call = nvperf.MetricNames(pMetricsEvaluator=self._handle, metricType=kind)
        self._call(call)
        return [
            ctypes.string_at(call.pMetricNames + begin).decode()
            for begin in _items(call.pMetricNameBeginIndices, call.numMetrics)
        ]

    def _collect_parts(self, place: int, parts: dict[str, None]) -> None:
        call = nvperf.ThroughputProperties(
            pMetricsEvaluator=self._handle, throughputMetricIndex=place
        )
        self._call(call)
        for index in _items(call.pCounterIndices, call.numCounters):
            parts[self.names[COUNTER][index]] = None
        for index in _items(call.pSubThroughputIndices, call.numSubThroughputs):
            name = self.names[THROUGHPUT][index]
            if name not in parts:
                parts[name] = None
                self._collect_parts(index, parts)

    def _request(self, name: str) -> Request:
        request = Request()
        self._call(
            nvperf.ToRequest(
                pMetricsEvaluator=self._handle,
                pMetricName=name.encode(),
                pMetricEvalRequest=ctypes.pointer(request),
                metricEvalRequestStructSize=_REQUEST_SIZE,
            )
        )
        return request


def passes_of(
    library: NvPerf, chip: str, names: Sequence[str], image: ctypes.Array[Any], passes: int
) -> tuple[list[list[int]], list[int]]:
    """Return in which passes each metric is counted.

    Args:
        library: NvPerf.
        chip: Name of the chip.
        names: Metrics, with their rollups.
        image: The configuration that schedules them.
        passes: The number of its passes.

    Returns:
        For each metric, the passes (from 0) that count something that it needs; for each pass, the
        number of its counters.

    Raises:
        NvPerfError: A function failed.
    """
    passes_of_counter: dict[bytes, list[int]] = {}
    counts = []
    for index in range(passes):
        counters = _counters(library, image, index)
        counts.append(len(counters))
        for counter in counters:
            passes_of_counter.setdefault(counter, []).append(index)
    with Evaluator(library, chip) as evaluator:
        needs = [evaluator.counters_of(name) for name in names]
    return [
        sorted({index for counter in counters for index in passes_of_counter.get(counter, ())})
        for counters in needs
    ], counts


def _counters(library: NvPerf, image: ctypes.Array[Any], index: int) -> list[bytes]:
    call = nvperf.CountersOfPass(
        pConfig=ctypes.cast(image, c_void_p), configSize=len(image), passIndex=index
    )
    library.call(call)
    found = (c_char_p * call.numRawCounters)()
    call.ppRawCounterNames = found
    library.call(call)
    return [*filter(None, found)]


def load(library: ctypes.CDLL) -> NvPerf | None:
    """Return the functions of a library; None if it cannot be initialized."""
    try:
        return NvPerf(library)
    except NvPerfError:
        return None


def text(value: bytes | None) -> str:
    """Return a text of a library."""
    return (value or b"").decode("utf-8", "replace")


def _items(array: Any, count: int) -> Iterator[int]:
    return (array[index] for index in range(count))
