"""NvPerf through ctypes: the library below CUPTI's profiler host.

It knows more than CUPTI shows: in which pass each metric is counted, and which metrics a throughput
is made of. It never needs a driver. NVIDIA calls it deprecated, and since 13.1 its headers lack
functions that the library still has, so each may be missing, and CUPTI is asked first.

The names of structures and fields are NVIDIA's; a test compares them with the headers.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_int8,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

LIBRARY_NAME = "libnvperf_host.so"
_SUCCESS, _NOT_IMPLEMENTED = 0, 3  # NVPA_STATUS_...

_HEAD = (("structSize", c_size_t), ("pPriv", c_void_p))
_EVALUATOR = (*_HEAD, ("pMetricsEvaluator", c_void_p))
_CONFIG = (*_HEAD, ("pRawCounterConfig", c_void_p))


class Request(ctypes.Structure):
    """``NVPW_MetricEvalRequest``: a metric by its place in the library."""

    _fields_ = (
        ("metricIndex", c_size_t),
        ("metricType", c_uint8),
        ("rollupOp", c_uint8),
        ("submetric", c_uint16),
    )


class DimUnit(ctypes.Structure):
    """``NVPW_DimUnitFactor``: a unit and its power."""

    _fields_ = (
        ("dimUnit", c_uint32),
        ("exponent", c_int8),
    )


class RawRequest(ctypes.Structure):
    """``NVPW_RawCounterRequest``: a counter to schedule."""

    _fields_ = (
        ("pPriv", c_void_p),
        ("pRawCounterName", c_char_p),
        ("domain", c_uint32),
        ("keepInstances", c_uint8),
    )


class InitializeHost(ctypes.Structure):
    """``NVPW_InitializeHost_Params``."""

    _fields_ = _HEAD


class ChipNames(ctypes.Structure):
    """``NVPW_GetSupportedChipNames_Params``."""

    _fields_ = (
        *_HEAD,
        ("ppChipNames", POINTER(c_char_p)),
        ("numChipNames", c_size_t),
    )


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

    _fields_ = _EVALUATOR


class MetricNames(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricNames_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("metricType", c_uint8),
        ("pMetricNames", c_void_p),
        ("pMetricNameBeginIndices", POINTER(c_size_t)),
        ("numMetrics", c_size_t),
    )


class TypeAndIndex(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricTypeAndIndex_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("pMetricName", c_char_p),
        ("metricType", c_uint8),
        ("metricIndex", c_size_t),
    )


class CounterProperties(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetCounterProperties_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("counterIndex", c_size_t),
        ("pDescription", c_char_p),
        ("hwUnit", c_uint32),
    )


class RatioProperties(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetRatioMetricProperties_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("ratioMetricIndex", c_size_t),
        ("pDescription", c_char_p),
        ("hwUnit", c_uint64),
    )


class ThroughputProperties(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetThroughputMetricProperties_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("throughputMetricIndex", c_size_t),
        ("pDescription", c_char_p),
        ("hwUnit", c_uint32),
        ("numCounters", c_size_t),
        ("pCounterIndices", POINTER(c_size_t)),
        ("numSubThroughputs", c_size_t),
        ("pSubThroughputIndices", POINTER(c_size_t)),
    )


class HwUnitName(ctypes.Structure):
    """``NVPW_MetricsEvaluator_HwUnitToString_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("hwUnit", c_uint32),
        ("pHwUnitName", c_char_p),
    )


class DimUnits(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricDimUnits_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("pMetricEvalRequest", POINTER(Request)),
        ("metricEvalRequestStructSize", c_size_t),
        ("pDimUnits", POINTER(DimUnit)),
        ("numDimUnits", c_size_t),
        ("dimUnitFactorStructSize", c_size_t),
    )


class DimUnitName(ctypes.Structure):
    """``NVPW_MetricsEvaluator_DimUnitToString_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("dimUnit", c_uint32),
        ("pSingularName", c_char_p),
        ("pPluralName", c_char_p),
    )


class ToRequest(ctypes.Structure):
    """``NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("pMetricName", c_char_p),
        ("pMetricEvalRequest", POINTER(Request)),
        ("metricEvalRequestStructSize", c_size_t),
    )


class RawDependencies(ctypes.Structure):
    """``NVPW_MetricsEvaluator_GetMetricRawDependencies_Params``."""

    _fields_ = (
        *_EVALUATOR,
        ("pMetricEvalRequests", POINTER(Request)),
        ("numMetricEvalRequests", c_size_t),
        ("metricEvalRequestStructSize", c_size_t),
        ("metricEvalRequestStrideSize", c_size_t),
        ("ppRawDependencies", POINTER(c_char_p)),
        ("numRawDependencies", c_size_t),
        ("ppOptionalRawDependencies", POINTER(c_char_p)),
        ("numOptionalRawDependencies", c_size_t),
    )


class CreateConfig(ctypes.Structure):
    """``NVPW_CUDA_RawCounterConfig_Create_Params``."""

    _fields_ = (
        *_HEAD,
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("activityKind", c_uint32),
        ("pRawCounterConfig", c_void_p),
    )


class DestroyConfig(ctypes.Structure):
    """``NVPW_RawCounterConfig_Destroy_Params``."""

    _fields_ = _CONFIG


class Domains(ctypes.Structure):
    """``NVPW_RawCounterConfig_GetAllAvailableRawCounterDomains_Params``."""

    _fields_ = (
        *_CONFIG,
        ("numAvailableDomains", c_size_t),
        ("pAvailableDomains", POINTER(c_uint32)),
    )


class BeginPassGroup(ctypes.Structure):
    """``NVPW_RawCounterConfig_BeginPassGroup_Params``."""

    _fields_ = (
        *_CONFIG,
        ("numDomains", c_size_t),
        ("pDomains", POINTER(c_uint32)),
    )


class EndPassGroup(ctypes.Structure):
    """``NVPW_RawCounterConfig_EndPassGroup_Params``."""

    _fields_ = (
        *_CONFIG,
        ("numDomains", c_size_t),
        ("pDomains", POINTER(c_uint32)),
    )


class AddCounters(ctypes.Structure):
    """``NVPW_RawCounterConfig_AddRawCounters_Params``."""

    _fields_ = (
        *_CONFIG,
        ("rawCounterRequestStructSize", c_size_t),
        ("numRawCounterRequests", c_size_t),
        ("pRawCounterRequests", POINTER(RawRequest)),
    )


class AreSchedulable(ctypes.Structure):
    """``NVPW_RawCounterConfig_AreRawCountersSchedulable_Params``."""

    _fields_ = (
        *_CONFIG,
        ("rawCounterRequestStructSize", c_size_t),
        ("numRawCounterRequests", c_size_t),
        ("pRawCounterRequests", POINTER(RawRequest)),
        ("disallowAddingExtraPasses", c_uint8),
        ("schedulable", c_uint8),
    )


class GenerateImage(ctypes.Structure):
    """``NVPW_RawCounterConfig_GenerateConfigImage_Params``."""

    _fields_ = _CONFIG


class Image(ctypes.Structure):
    """``NVPW_RawCounterConfig_GetConfigImage_Params``."""

    _fields_ = (
        *_CONFIG,
        ("bytesAllocated", c_size_t),
        ("pBuffer", c_void_p),
        ("bytesCopied", c_size_t),
    )


class NumPasses(ctypes.Structure):
    """``NVPW_RawCounterConfig_GetNumPasses_Params``."""

    _fields_ = (
        *_CONFIG,
        ("numPasses", c_size_t),
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


_STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    InitializeHost,
    ChipNames,
    ScratchSize,
    InitializeEvaluator,
    DestroyEvaluator,
    MetricNames,
    TypeAndIndex,
    CounterProperties,
    RatioProperties,
    ThroughputProperties,
    HwUnitName,
    DimUnits,
    DimUnitName,
    ToRequest,
    RawDependencies,
    CreateConfig,
    DestroyConfig,
    Domains,
    BeginPassGroup,
    EndPassGroup,
    AddCounters,
    AreSchedulable,
    GenerateImage,
    Image,
    NumPasses,
    CountersOfPass,
)


def name_of(structure: type[ctypes.Structure]) -> str:
    """Return NVIDIA's name of a structure."""
    return (structure.__doc__ or "").split("``")[1]


# The function of each structure.
FUNCTIONS = {structure: name_of(structure).removesuffix("_Params") for structure in _STRUCTURES}


class NvPerfError(Exception):
    """A function of NvPerf failed.

    Args:
        function: Its name.
        status: The NVPA_Status.
    """

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} failed ({status})")
        self.function = function
        self.status = status


class NvPerf:
    """The functions of one libnvperf_host.

    Args:
        library: The loaded library.

    Raises:
        NvPerfError: It cannot be initialized.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.call(InitializeHost())

    @property
    def is_complete(self) -> bool:
        """Whether the library has all functions."""
        return all(hasattr(self._library, name) for name in FUNCTIONS.values())

    def call(self, parameters: ctypes.Structure) -> None:
        """Call the function of a structure with it; NvPerfError if it fails or is missing."""
        name = FUNCTIONS[type(parameters)]
        function = getattr(self._library, name, None)
        if function is None:
            raise NvPerfError(name, _NOT_IMPLEMENTED)
        parameters.structSize = size_of(type(parameters))
        status = function(ctypes.byref(parameters))
        if status != _SUCCESS:
            raise NvPerfError(name, status)


def size_of(structure: type[ctypes.Structure]) -> int:
    """Return the size that the libraries expect: up to the end of the last field."""
    last = getattr(structure, structure._fields_[-1][0])
    return int(last.offset + last.size)
