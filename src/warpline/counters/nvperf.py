"""NvPerf through ctypes: the library below CUPTI's profiler host, for what CUPTI does not tell.

CUPTI counts the passes of a configuration; NvPerf knows in which of them each metric is counted,
and which metrics a throughput is made of. NVIDIA calls these functions deprecated, and since 13.1
its headers lack one that the library still has, so all of this is optional.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_size_t, c_uint8, c_uint16, c_uint32, c_void_p
from typing import Any, Self

LIBRARY_NAME = "libnvperf_host.so"
_SUCCESS = 0
_THROUGHPUT = 2  # NVPW_METRIC_TYPE_THROUGHPUT; the others are counters (0) and ratios (1)
_COUNTER = 0

_HEAD = (("structSize", c_size_t), ("pPriv", c_void_p))


class Request(ctypes.Structure):
    """``NVPW_MetricEvalRequest``: a metric by its place in the library."""

    _fields_ = (
        ("metricIndex", c_size_t),
        ("metricType", c_uint8),
        ("rollupOp", c_uint8),
        ("submetric", c_uint16),
    )


# The size of a structure ends with its last field, without the padding that `sizeof` counts.
REQUEST_SIZE = Request.submetric.offset + Request.submetric.size


class InitializeHost(ctypes.Structure):
    """``NVPW_InitializeHost_Params``."""

    _fields_ = _HEAD


class ScratchSize(ctypes.Structure):
    """``NVPW_CUDA_MetricsEvaluator_CalculateScratchBufferSize_Params``."""

    _fields_ = (
        *_HEAD,
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("scratchBufferSize", c_size_t),
    )


class InitializeEvaluator(ctypes.Structure):
    """``NVPW_CUDA_MetricsEvaluator_Initialize_Params``."""

    _fields_ = (
        *_HEAD,
        ("pScratchBuffer", c_void_p),
        ("scratchBufferSize", c_size_t),
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("pCounterDataImage", c_void_p),
        ("counterDataImageSize", c_size_t),
        ("pMetricsEvaluator", c_void_p),
    )


class DestroyEvaluator(ctypes.Structure):
    """``NVPW_MetricsEvaluator_Destroy_Params``."""

    _fields_ = (*_HEAD, ("pMetricsEvaluator", c_void_p))


class MetricNames(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricNames_Params``."""

    _fields_ = (
        *_HEAD,
        ("pMetricsEvaluator", c_void_p),
        ("metricType", c_uint8),
        ("pMetricNames", c_void_p),
        ("pMetricNameBeginIndices", POINTER(c_size_t)),
        ("numMetrics", c_size_t),
    )


class TypeAndIndex(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricTypeAndIndex_Params``."""

    _fields_ = (
        *_HEAD,
        ("pMetricsEvaluator", c_void_p),
        ("pMetricName", c_char_p),
        ("metricType", c_uint8),
        ("metricIndex", c_size_t),
    )


class ThroughputProperties(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetThroughputMetricProperties_Params``."""

    _fields_ = (
        *_HEAD,
        ("pMetricsEvaluator", c_void_p),
        ("throughputMetricIndex", c_size_t),
        ("pDescription", c_char_p),
        ("hwUnit", c_uint32),
        ("numCounters", c_size_t),
        ("pCounterIndices", POINTER(c_size_t)),
        ("numSubThroughputs", c_size_t),
        ("pSubThroughputIndices", POINTER(c_size_t)),
    )


class ToRequest(ctypes.Structure):
    """``NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest_Params``."""

    _fields_ = (
        *_HEAD,
        ("pMetricsEvaluator", c_void_p),
        ("pMetricName", c_char_p),
        ("pMetricEvalRequest", POINTER(Request)),
        ("metricEvalRequestStructSize", c_size_t),
    )


class RawDependencies(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricRawDependencies_Params``."""

    _fields_ = (
        *_HEAD,
        ("pMetricsEvaluator", c_void_p),
        ("pMetricEvalRequests", POINTER(Request)),
        ("numMetricEvalRequests", c_size_t),
        ("metricEvalRequestStructSize", c_size_t),
        ("metricEvalRequestStrideSize", c_size_t),
        ("ppRawDependencies", POINTER(c_char_p)),
        ("numRawDependencies", c_size_t),
        ("ppOptionalRawDependencies", POINTER(c_char_p)),
        ("numOptionalRawDependencies", c_size_t),
    )


class CountersOfPass(ctypes.Structure):
    """``NVPW_Config_GetRawCounters_Params``."""

    _fields_ = (
        *_HEAD,
        ("pConfig", c_void_p),
        ("configSize", c_size_t),
        ("passIndex", c_size_t),
        ("ppRawCounterNames", POINTER(c_char_p)),
        ("numRawCounters", c_size_t),
    )


class NvPerfError(Exception):
    """A function of NvPerf failed."""


class NvPerf:
    """The functions of one libnvperf_host.

    Args:
        library: The loaded library.

    Raises:
        AttributeError: It lacks a function.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions = {
            structure: getattr(library, name) for structure, name in FUNCTIONS.items()
        }
        self._library = library
        self.call(InitializeHost())

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the counters and throughputs that a throughput is the maximum of, at all levels.

        Args:
            chip: Name of the chip.
            throughput: Base name of a throughput.

        Returns:
            Base names, without `throughput`; None if it is no throughput.

        Raises:
            NvPerfError: A function failed.
        """
        with _Evaluator(self, chip) as evaluator:
            kind, place = evaluator.place_of(throughput)
            if kind != _THROUGHPUT:
                return None
            return evaluator.parts_of(place)

    def passes_of(
        self, chip: str, names: Sequence[str], image: ctypes.Array[Any], passes: int
    ) -> tuple[list[list[int]], list[int]]:
        """Return in which passes each metric is counted.

        Args:
            chip: Name of the chip.
            names: Metrics, with their rollups.
            image: The configuration that CUPTI made of them.
            passes: The number of its passes.

        Returns:
            For each metric, the passes (from 0) that count something that it requires; for each
            pass, the number of its counters.

        Raises:
            NvPerfError: A function failed.
        """
        passes_of_counter: dict[bytes, list[int]] = {}
        counts = []
        for index in range(passes):
            counters = self._counters(image, index)
            counts.append(len(counters))
            for counter in counters:
                passes_of_counter.setdefault(counter, []).append(index)
        with _Evaluator(self, chip) as evaluator:
            needs = [evaluator.counters_of(name) for name in names]
        return [
            sorted({index for counter in counters for index in passes_of_counter.get(counter, ())})
            for counters in needs
        ], counts

    def _counters(self, image: ctypes.Array[Any], index: int) -> list[bytes]:
        call = CountersOfPass(
            pConfig=ctypes.cast(image, c_void_p), configSize=len(image), passIndex=index
        )
        self.call(call)
        found = (c_char_p * call.numRawCounters)()
        call.ppRawCounterNames = found
        self.call(call)
        return [name for name in found if name is not None]

    def call(self, parameters: ctypes.Structure) -> None:
        """Call the function of a structure with it; NvPerfError if it fails."""
        parameters.structSize = size_of(type(parameters))
        if self._functions[type(parameters)](ctypes.byref(parameters)) != _SUCCESS:
            raise NvPerfError(FUNCTIONS[type(parameters)])


class _Evaluator:
    """A metrics evaluator of a chip, freed at the end of the ``with`` block."""

    def __init__(self, nvperf: NvPerf, chip: str) -> None:
        self._call = nvperf.call
        size = ScratchSize(pChipName=chip.encode())
        self._call(size)
        self._scratch = ctypes.create_string_buffer(size.scratchBufferSize)
        made = InitializeEvaluator(
            pScratchBuffer=ctypes.cast(self._scratch, c_void_p),
            scratchBufferSize=len(self._scratch),
            pChipName=chip.encode(),
        )
        self._call(made)
        self._handle = made.pMetricsEvaluator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._call(DestroyEvaluator(pMetricsEvaluator=self._handle))

    def place_of(self, name: str) -> tuple[int, int]:
        """Return the kind of a metric and its place among those of its kind."""
        found = TypeAndIndex(pMetricsEvaluator=self._handle, pMetricName=name.encode())
        self._call(found)
        return found.metricType, found.metricIndex

    def parts_of(self, place: int) -> list[str]:
        """Return what a throughput is made of, at all levels."""
        counters, throughputs = self._names(_COUNTER), self._names(_THROUGHPUT)
        found: dict[str, None] = {}
        self._collect_parts(place, counters, throughputs, found)
        return list(found)

    def _collect_parts(
        self, place: int, counters: list[str], throughputs: list[str], found: dict[str, None]
    ) -> None:
        call = ThroughputProperties(pMetricsEvaluator=self._handle, throughputMetricIndex=place)
        self._call(call)
        for index in _items(call.pCounterIndices, call.numCounters):
            found[counters[index]] = None
        for index in _items(call.pSubThroughputIndices, call.numSubThroughputs):
            if throughputs[index] not in found:
                found[throughputs[index]] = None
                self._collect_parts(index, counters, throughputs, found)

    def _names(self, kind: int) -> list[str]:
        call = MetricNames(pMetricsEvaluator=self._handle, metricType=kind)
        self._call(call)
        return [
            ctypes.string_at(call.pMetricNames + begin).decode()
            for begin in _items(call.pMetricNameBeginIndices, call.numMetrics)
        ]

    def counters_of(self, name: str) -> list[bytes]:
        """Return the counters that a metric requires, with those that it uses where there are."""
        request = Request()
        self._call(
            ToRequest(
                pMetricsEvaluator=self._handle,
                pMetricName=name.encode(),
                pMetricEvalRequest=ctypes.pointer(request),
                metricEvalRequestStructSize=REQUEST_SIZE,
            )
        )
        call = RawDependencies(
            pMetricsEvaluator=self._handle,
            pMetricEvalRequests=ctypes.pointer(request),
            numMetricEvalRequests=1,
            metricEvalRequestStructSize=REQUEST_SIZE,
            metricEvalRequestStrideSize=ctypes.sizeof(Request),
        )
        self._call(call)
        needed = (c_char_p * call.numRawDependencies)()
        optional = (c_char_p * call.numOptionalRawDependencies)()
        call.ppRawDependencies, call.ppOptionalRawDependencies = needed, optional
        self._call(call)
        return [counter for counter in needed if counter is not None]


# The function of each structure.
FUNCTIONS: dict[type[ctypes.Structure], str] = {
    InitializeHost: "NVPW_InitializeHost",
    ScratchSize: "NVPW_CUDA_MetricsEvaluator_CalculateScratchBufferSize",
    InitializeEvaluator: "NVPW_CUDA_MetricsEvaluator_Initialize",
    DestroyEvaluator: "NVPW_MetricsEvaluator_Destroy",
    MetricNames: "NVPW_MetricsEvaluator_GetMetricNames",
    TypeAndIndex: "NVPW_MetricsEvaluator_GetMetricTypeAndIndex",
    ThroughputProperties: "NVPW_MetricsEvaluator_GetThroughputMetricProperties",
    ToRequest: "NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest",
    RawDependencies: "NVPW_MetricsEvaluator_GetMetricRawDependencies",
    CountersOfPass: "NVPW_Config_GetRawCounters",
}


def load(library: ctypes.CDLL) -> NvPerf | None:
    """Return the functions of a library; None if it lacks one or cannot be initialized."""
    try:
        return NvPerf(library)
    except (AttributeError, NvPerfError):
        return None


def size_of(structure: type[ctypes.Structure]) -> int:
    """Return the size that the library expects: up to the end of the last field."""
    last = getattr(structure, structure._fields_[-1][0])
    return int(last.offset + last.size)


def _items(array: Any, count: int) -> Iterator[int]:
    return (array[index] for index in range(count))
